//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgGroup, CommandFactory, Parser, Subcommand};
use stats::SectionInfo;

use crate::fd_list::FdList;
use crate::message::tell;

/// What to do after the command line was read.
pub(crate) enum Parsed {
    Run(Box<Options>),
    /// Everything was said already: help, version, or what is wrong.
    Done(ExitCode),
}

/// A valid request.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) process: Process,
    pub(crate) directory: PathBuf,
    pub(crate) interval: Duration,
    /// Reports to print; 0 = until the process ends.
    pub(crate) cycles: u64,
    pub(crate) details: Details,
    pub(crate) sockets: FdList,
    /// Leave files of dead processes where they are.
    pub(crate) keep_stale: bool,
    pub(crate) output: Output,
    pub(crate) requests: Requests,
    /// Show what was recorded here instead of a process.
    pub(crate) replay: Option<PathBuf>,
}

/// Whose statistics to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    Pid(u32),
    Name(String),
    FirstLive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Details {
    Totals,
    Deltas,
}

/// How to show it.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Screens, with keys.
    Screens,
    /// View 1; with rings, pools and reasons if asked for.
    Basic {
        explained: bool,
    },
    /// View 2
    Medium,
    /// View 3
    Full,
    /// View 4
    Groups,
    /// View 5
    Netstat,
    Json,
    Csv(&'static SectionInfo),
    /// Once, or to everybody who asks at an address.
    Prometheus(Option<SocketAddr>),
    /// JSON into a file.
    Record(PathBuf),
    /// In words, of all sockets or one.
    Words(Option<i32>),
}

/// What the process is asked for before its statistics are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) zero: bool,
    pub(crate) log_level: Option<String>,
    pub(crate) log_details: Option<u8>,
    /// Descriptor, 0 for all, and log level.
    pub(crate) dump: Option<(i32, Option<String>)>,
}

pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return Parsed::Done(answer(&error)),
    };
    match arguments.resolve(io::stdout().is_terminal() && io::stdin().is_terminal()) {
        Ok(options) => Parsed::Run(Box::new(options)),
        Err(reason) => {
            tell(reason);
            Parsed::Done(ExitCode::FAILURE)
        }
    }
}

/// The command line, for the manual page.
#[cfg(test)]
pub(crate) fn command() -> clap::Command {
    Arguments::command()
}

/// The lines that say how the program is called.
pub(crate) fn usage() -> String {
    let mut command = Arguments::command();
    format!(
        "{}\n\nFor more information, try '--help'.",
        command.render_usage()
    )
}

/// Prints help and version on standard output, errors on standard error.
fn answer(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = io::stdout().lock().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    tell(text.strip_prefix("error: ").unwrap_or(&text).trim_end());
    ExitCode::FAILURE
}

/// Shows what the sockets of a process that runs libvma do.
///
/// On a terminal: screens with keys and mouse ('?' explains them). With -v, -c or --plain, or into a pipe or file: the views of
/// the original tool. Without -p or -n, the first process found in the directory is shown.
#[derive(Debug, Parser)]
#[command(
    name = "vma_stats",
    version = VERSION,
    rename_all = "snake_case",
    args_override_self = true,
    group = ArgGroup::new("process").multiple(false),
    group = ArgGroup::new("output").multiple(false),
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Show the process with this id
    #[arg(short, long, value_name = "PID", group = "process", global = true,
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Show the process that runs the program of this name
    #[arg(short, long, value_name = "APPLICATION", group = "process", global = true,
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// Show the first process found (the default)
    #[arg(short, long, group = "process")]
    find_pid: bool,

    /// Where the library writes its statistics (its VMA_STATS_SHMEM_DIR)
    #[arg(
        short = 'k',
        long,
        value_name = "DIRECTORY",
        default_value = "/tmp/",
        global = true
    )]
    directory: PathBuf,

    /// Do not remove the files of processes that are gone
    #[arg(short = 'F', long)]
    forbid_clean: bool,

    /// Seconds between two reports; fractions are allowed
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds, global = true)]
    interval: Duration,

    /// Print this many reports and exit; 0 = until the process ends
    #[arg(short, long, value_name = "COUNT", global = true)]
    cycles: Option<u64>,

    /// 1 = counters of every socket, 2 = with queues, 3 = everything, 4 = multicast groups,
    /// 5 = all processes' sockets as netstat lists them
    #[arg(short, long, value_name = "VIEW",
          value_parser = clap::value_parser!(u8).range(1..=5))]
    view: Option<u8>,

    /// 1 = totals, 2 = change per second (with --json and --csv: change during the interval)
    #[arg(short, long, value_name = "DETAILS", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    details: u8,

    /// Only sockets with these descriptors, for example 4-16,1
    #[arg(short, long, value_name = "LIST", default_value = "0-", value_parser = fd_list, global = true)]
    sockets: FdList,

    /// Let all counters begin anew
    #[arg(short, long)]
    zero: bool,

    /// Set the library's log level: none, panic, error, warn, info, details, debug, fine, finer, all
    #[arg(short, long, value_name = "LEVEL", allow_hyphen_values = true)]
    log_level: Option<String>,

    /// Set how much the library puts in front of its log lines, 0 to 3
    #[arg(short = 'D', long = "details_level", value_name = "LEVEL",
          value_parser = clap::value_parser!(u8).range(0..=3))]
    details_level: Option<u8>,

    /// Have the library log the statistics of a socket, at a log level; 0 = of all; and exit
    #[arg(short = 'S', long = "fd_dump", value_names = ["FD", "LEVEL"], num_args = 1..=2)]
    fd_dump: Vec<String>,

    /// Print, even on a terminal
    #[arg(long)]
    plain: bool,

    /// Print view 1 with rings, buffer pools, and why sockets are not offloaded
    #[arg(long, group = "output")]
    explain: bool,

    /// Print one JSON document per report and line
    #[arg(long, group = "output")]
    json: bool,

    /// Print a section as comma-separated values
    #[arg(long, group = "output", value_name = "SECTION", num_args = 0..=1, default_missing_value = "sockets",
          require_equals = true, value_parser = section)]
    csv: Option<&'static SectionInfo>,

    /// Print metrics for Prometheus, or serve them on a local address
    #[arg(long, group = "output", value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "",
          require_equals = true)]
    prometheus: Option<String>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Say why each socket is accelerated or not, and what to change
    Explain {
        /// Only the socket with this descriptor
        fd: Option<i32>,
    },
    /// Write the statistics to a file, one JSON document per interval
    Record { file: PathBuf },
    /// Show what was recorded
    Replay { file: PathBuf },
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (statistics layout 1.4)");

impl Arguments {
    fn resolve(self, on_terminal: bool) -> Result<Options, String> {
        let output = self.output(on_terminal)?;
        let requests = Requests {
            zero: self.zero,
            log_level: self.log_level,
            log_details: self.details_level,
            dump: dump(&self.fd_dump)?,
        };
        let process = match (self.pid, self.name) {
            (Some(pid), _) => Process::Pid(pid),
            (None, Some(name)) => Process::Name(name),
            (None, None) => Process::FirstLive,
        };
        let details = if self.details == 2 {
            Details::Deltas
        } else {
            Details::Totals
        };
        let replay = match self.command {
            Some(Command::Replay { file }) => Some(file),
            _ => None,
        };
        Ok(Options {
            process,
            directory: self.directory,
            interval: self.interval,
            cycles: self.cycles.unwrap_or(0),
            details,
            sockets: self.sockets,
            keep_stale: self.forbid_clean,
            output,
            requests,
            replay,
        })
    }

    fn output(&self, on_terminal: bool) -> Result<Output, String> {
        match &self.command {
            Some(Command::Explain { fd }) => return Ok(Output::Words(*fd)),
            Some(Command::Record { file }) => return Ok(Output::Record(file.clone())),
            Some(Command::Replay { .. }) | None => {}
        }
        if self.explain {
            return Ok(Output::Basic { explained: true });
        }
        if self.json {
            return Ok(Output::Json);
        }
        if let Some(section) = self.csv {
            return Ok(Output::Csv(section));
        }
        if let Some(address) = &self.prometheus {
            return local_address(address).map(Output::Prometheus);
        }
        let prints = self.plain || self.view.is_some() || self.cycles.is_some();
        Ok(match self.view {
            None if on_terminal && !prints => Output::Screens,
            None | Some(1) => Output::Basic { explained: false },
            Some(2) => Output::Medium,
            Some(3) => Output::Full,
            Some(4) => Output::Groups,
            Some(_) => Output::Netstat,
        })
    }
}

/// Where to serve metrics: they are not for strangers.
fn local_address(text: &str) -> Result<Option<SocketAddr>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("'--prometheus' {text} is not an address and a port"))?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "'--prometheus' {} is not a local address: use 127.0.0.1 or [::1]",
            address.ip()
        ));
    }
    Ok(Some(address))
}

/// `-S FD [LEVEL]`
fn dump(values: &[String]) -> Result<Option<(i32, Option<String>)>, String> {
    let Some(fd) = values.first() else {
        return Ok(None);
    };
    let number = fd.parse().ok().filter(|fd| *fd >= 0);
    let number = number.ok_or_else(|| format!("'-S' Invalid fd val: {fd}"))?;
    Ok(Some((number, values.get(1).cloned())))
}

fn fd_list(text: &str) -> Result<FdList, String> {
    // The default.
    if text == "0-" {
        return Ok(FdList::default());
    }
    text.parse()
}

fn section(name: &str) -> Result<&'static SectionInfo, String> {
    let found = stats::SECTIONS.iter().find(|section| section.name == name);
    found.ok_or_else(|| {
        let names: Vec<_> = stats::SECTIONS.iter().map(|section| section.name).collect();
        format!("sections are {}", names.join(", "))
    })
}

/// Seconds, with a fraction if wanted.
fn seconds(text: &str) -> Result<Duration, String> {
    let (least, most) = (0.01, 86_400.0 * 365.0);
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if !(least..=most).contains(&number) {
        return Err(format!("not between {least} and {most} seconds"));
    }
    Ok(Duration::from_secs_f64(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str], on_terminal: bool) -> Result<Options, String> {
        let arguments = std::iter::once("vma_stats").chain(arguments.iter().copied());
        Arguments::try_parse_from(arguments)
            .map_err(|error| error.to_string())?
            .resolve(on_terminal)
    }

    fn options(arguments: &[&str]) -> Result<Options, String> {
        parsed(arguments, false)
    }

    fn shown(arguments: &[&str], on_terminal: bool) -> String {
        format!("{:?}", parsed(arguments, on_terminal).unwrap().output)
    }

    #[test]
    fn command_line_is_well_formed() {
        Arguments::command().debug_assert();
        let layout = format!("layout {}.{})", stats::LAYOUT_MAJOR, stats::LAYOUT_MINOR);
        assert!(VERSION.ends_with(&layout), "{VERSION}");
    }

    #[test]
    fn defaults_are_the_original_ones() {
        for arguments in [&[][..], &["-f", "-v1", "-d", "1"]] {
            let options = options(arguments).unwrap();
            assert_eq!(options.process, Process::FirstLive);
            assert_eq!(options.directory, PathBuf::from("/tmp/"));
            assert_eq!(options.interval, Duration::from_secs(1));
            assert_eq!((options.cycles, options.details), (0, Details::Totals));
            assert_eq!(options.sockets, FdList::default());
            assert_eq!(options.requests, Requests::default());
            assert!(!options.keep_stale && options.replay.is_none());
            assert!(matches!(options.output, Output::Basic { explained: false }));
        }
    }

    #[test]
    fn short_and_long_options_mean_the_same() {
        let short = ["-p", "7", "-k", "/d", "-i", "0.5", "-c", "3", "-d2", "-F"];
        let long = [
            "--pid=7",
            "--directory",
            "/d",
            "--interval",
            "0.5",
            "--cycles",
            "3",
            "--details",
            "2",
            "--forbid_clean",
        ];
        let options_short = options(&short).unwrap();
        assert_eq!(options_short.process, Process::Pid(7));
        assert_eq!(options_short.interval, Duration::from_millis(500));
        assert_eq!(
            (options_short.cycles, options_short.details),
            (3, Details::Deltas)
        );
        assert!(options_short.keep_stale);
        let options_long = options(&long).unwrap();
        assert_eq!(format!("{options_short:?}"), format!("{options_long:?}"));
        let named = options(&["-n", "redis-server"]).unwrap();
        assert_eq!(named.process, Process::Name("redis-server".to_owned()));
    }

    #[test]
    fn screens_are_for_terminals_that_are_not_asked_for_a_view() {
        assert_eq!(shown(&[], true), "Screens");
        assert_eq!(shown(&["-p", "7", "-i", "0.2"], true), "Screens");
        assert_eq!(shown(&[], false), "Basic { explained: false }");
        assert_eq!(shown(&["-v", "2"], true), "Medium");
        assert_eq!(shown(&["--plain"], true), "Basic { explained: false }");
        assert_eq!(shown(&["-c", "1"], true), "Basic { explained: false }");
        assert_eq!(shown(&["--explain"], true), "Basic { explained: true }");
        assert_eq!(shown(&["-v", "3"], false), "Full");
        assert_eq!(shown(&["-v", "4"], false), "Groups");
        assert_eq!(shown(&["-v", "5"], false), "Netstat");
        assert_eq!(shown(&["--json"], true), "Json");
        assert_eq!(shown(&["explain", "-p", "7", "9"], true), "Words(Some(9))");
        assert_eq!(shown(&["record", "x"], true), "Record(\"x\")");
        assert_eq!(shown(&["replay", "x"], true), "Screens");
        let replay = options(&["replay", "x"]).unwrap().replay;
        assert_eq!(replay, Some(PathBuf::from("x")));
    }

    #[test]
    fn the_last_of_repeated_options_counts() {
        assert_eq!(
            options(&["-c", "1", "-c", "2"]).map(|options| options.cycles),
            Ok(2)
        );
    }

    #[test]
    fn requests_are_those_of_the_original() {
        let requests = |arguments: &[&str]| options(arguments).unwrap().requests;
        assert!(requests(&["-z"]).zero);
        let level = requests(&["-l", "debug"]).log_level;
        assert_eq!(level.as_deref(), Some("debug"));
        assert_eq!(requests(&["-D", "3"]).log_details, Some(3));
        assert_eq!(requests(&["-S", "17"]).dump, Some((17, None)));
        let dump = requests(&["-S", "0", "info"]).dump;
        assert_eq!(dump, Some((0, Some("info".to_owned()))));
        let some = options(&["-s", "4-16,1"]).unwrap().sockets;
        assert!(some.contains(4) && some.contains(1) && !some.contains(2));
    }

    #[test]
    fn metrics_are_served_on_local_addresses_only() {
        let local = shown(&["--prometheus=127.0.0.1:9100"], true);
        assert_eq!(local, "Prometheus(Some(127.0.0.1:9100))");
        assert_eq!(shown(&["--prometheus"], true), "Prometheus(None)");
        for other in ["0.0.0.0:1", "10.0.0.1:9100", "x"] {
            assert!(options(&[&format!("--prometheus={other}")]).is_err());
        }
    }

    #[test]
    fn bad_values_are_errors() {
        for arguments in [
            &["-v", "6"][..],
            &["-v", "0"],
            &["-d", "3"],
            &["-i", "0"],
            &["-i", "-1"],
            &["-i", "nan"],
            &["-i", "inf"],
            &["-c", "x"],
            &["-p", "0"],
            &["-n", ""],
            &["-p", "1", "-n", "x"],
            &["-D", "4"],
            &["-S", "x"],
            &["-s", "x"],
            &["--csv=nothing"],
            &["--json", "--explain"],
            &["extra"],
        ] {
            assert!(options(arguments).is_err(), "{arguments:?}");
        }
    }
}
