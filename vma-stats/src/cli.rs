//! The command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgGroup, CommandFactory, Parser};

use crate::message::tell;

/// What to do after the command line was read.
pub(crate) enum Parsed {
    Run(Options),
    /// Everything was said already: help, version, or what is wrong.
    Done(ExitCode),
}

/// A valid request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) process: Process,
    pub(crate) directory: PathBuf,
    pub(crate) interval: Duration,
    /// Reports to print; 0 = until the process ends.
    pub(crate) cycles: u64,
    pub(crate) details: Details,
    /// Leave files of dead processes where they are.
    pub(crate) keep_stale: bool,
    pub(crate) explain: bool,
    pub(crate) json: bool,
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

pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Parsed {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return Parsed::Done(answer(&error)),
    };
    match arguments.resolve() {
        Ok(options) => Parsed::Run(options),
        Err(reason) => {
            tell(reason);
            Parsed::Done(ExitCode::FAILURE)
        }
    }
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
/// Without -p or -n, the first process found in the directory is shown.
#[derive(Debug, Parser)]
#[command(
    name = "vma_stats",
    version = VERSION,
    rename_all = "snake_case",
    args_override_self = true,
    group = ArgGroup::new("process").multiple(false),
    after_help = "Not supported yet, and refused: -v 2 to 5, -z, -l, -S, -D, -s.",
)]
struct Arguments {
    /// Show the process with this id
    #[arg(short, long, value_name = "PID", group = "process",
          value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Show the process that runs the program of this name
    #[arg(short, long, value_name = "APPLICATION", group = "process",
          value_parser = clap::builder::NonEmptyStringValueParser::new())]
    name: Option<String>,

    /// Show the first process found (the default)
    #[arg(short, long, group = "process")]
    find_pid: bool,

    /// Where the library writes its statistics (its VMA_STATS_SHMEM_DIR)
    #[arg(short = 'k', long, value_name = "DIRECTORY", default_value = "/tmp/")]
    directory: PathBuf,

    /// Do not remove the files of processes that are gone
    #[arg(short = 'F', long)]
    forbid_clean: bool,

    /// Seconds between two reports; fractions are allowed
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,

    /// Print this many reports and exit; 0 = until the process ends
    #[arg(short, long, value_name = "COUNT", default_value_t = 0)]
    cycles: u64,

    /// 1 = counters of every socket; 2 to 5 are not built yet
    #[arg(short, long, value_name = "VIEW", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=5))]
    view: u8,

    /// 1 = totals, 2 = change per second (with --json: change during the interval)
    #[arg(short, long, value_name = "DETAILS", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    details: u8,

    /// Also print rings, buffer pools, and why sockets are not offloaded
    #[arg(long, conflicts_with = "json")]
    explain: bool,

    /// Print one JSON document per report and line
    #[arg(long)]
    json: bool,

    #[arg(short, long, hide = true)]
    zero: bool,

    #[arg(
        short,
        long,
        hide = true,
        value_name = "LEVEL",
        allow_hyphen_values = true
    )]
    log_level: Option<String>,

    #[arg(short = 'S', long = "fd_dump", hide = true, value_name = "FD", num_args = 1..=2)]
    fd_dump: Vec<String>,

    #[arg(short = 'D', long = "details_level", hide = true, value_name = "LEVEL")]
    details_level: Option<String>,

    #[arg(short, long, hide = true, value_name = "LIST")]
    sockets: Option<String>,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (statistics layout 1.3)");

impl Arguments {
    fn resolve(self) -> Result<Options, String> {
        self.refuse_unsupported()?;
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
        Ok(Options {
            process,
            directory: self.directory,
            interval: self.interval,
            cycles: self.cycles,
            details,
            keep_stale: self.forbid_clean,
            explain: self.explain,
            json: self.json,
        })
    }

    /// Options of the original tool that would otherwise be accepted and do nothing.
    fn refuse_unsupported(&self) -> Result<(), String> {
        let given = [
            (self.zero, "-z (--zero)"),
            (self.log_level.is_some(), "-l (--log_level)"),
            (!self.fd_dump.is_empty(), "-S (--fd_dump)"),
            (self.details_level.is_some(), "-D (--details_level)"),
            (self.sockets.is_some(), "-s (--sockets)"),
        ];
        if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
            return Err(format!("option {option} is not supported yet"));
        }
        if self.view != 1 {
            return Err(format!("view {} is not built yet: use -v 1", self.view));
        }
        Ok(())
    }
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

    fn options(arguments: &[&str]) -> Result<Options, String> {
        let arguments = std::iter::once("vma_stats").chain(arguments.iter().copied());
        Arguments::try_parse_from(arguments)
            .map_err(|error| error.to_string())?
            .resolve()
    }

    #[test]
    fn command_line_is_well_formed() {
        Arguments::command().debug_assert();
        let layout = format!("layout {}.{})", stats::LAYOUT_MAJOR, stats::LAYOUT_MINOR);
        assert!(VERSION.ends_with(&layout), "{VERSION}");
    }

    #[test]
    fn defaults_are_the_original_ones() {
        let expected = Options {
            process: Process::FirstLive,
            directory: PathBuf::from("/tmp/"),
            interval: Duration::from_secs(1),
            cycles: 0,
            details: Details::Totals,
            keep_stale: false,
            explain: false,
            json: false,
        };
        assert_eq!(options(&[]), Ok(expected.clone()));
        assert_eq!(options(&["-f", "-v1", "-d", "1"]), Ok(expected));
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
        assert_eq!(options(&long), Ok(options_short));
        let named = options(&["-n", "redis-server"]).unwrap();
        assert_eq!(named.process, Process::Name("redis-server".to_owned()));
    }

    #[test]
    fn the_last_of_repeated_options_counts() {
        assert_eq!(
            options(&["-c", "1", "-c", "2"]).map(|options| options.cycles),
            Ok(2)
        );
    }

    #[test]
    fn what_does_not_work_is_refused_by_name() {
        for (arguments, named) in [
            (&["-z"][..], "-z"),
            (&["-l", "debug"], "-l"),
            (&["-S", "17"], "-S"),
            (&["-S", "17", "info"], "-S"),
            (&["-D", "1"], "-D"),
            (&["-s", "4-16,1"], "-s"),
        ] {
            let error = options(arguments).unwrap_err();
            assert!(
                error.contains(named) && error.contains("not supported yet"),
                "{error}"
            );
        }
        for view in ["2", "3", "4", "5"] {
            let error = options(&["-v", view]).unwrap_err();
            assert!(
                error.contains(&format!("view {view} is not built yet")),
                "{error}"
            );
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
            &["--json", "--explain"],
            &["extra"],
        ] {
            assert!(options(arguments).is_err(), "{arguments:?}");
        }
    }
}
