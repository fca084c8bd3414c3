//! The command line: VMA's, and what this daemon has beside it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use dev_xdp::XdpMode;

/// Resets the connections of accelerated processes that die.
///
/// Watches the processes that run with libvma, and those that tell of their connections by the
/// protocol of the original library. When one ends without closing its connections, their peers are
/// sent a reset, so that they learn at once what they would otherwise find out after minutes.
///
/// It does not go into the background by itself: systemd starts it as vma.service.
#[derive(Clone, Debug, Parser, PartialEq, Eq)]
#[command(name = "vmad", version)]
pub struct Options {
    /// Write messages to standard output, not to the journal or syslog
    #[arg(long)]
    pub console: bool,

    /// Where programs under the original library leave their files (its VMA_VMAD_NOTIFY_DIR)
    #[arg(short, long, value_name = "DIRECTORY", default_value = "/tmp/vma")]
    pub notify_dir: PathBuf,

    /// Accepted for VMA's command lines and without effect: tables grow as needed
    #[arg(short, long, value_name = "SIZE")]
    pub pid: Option<u32>,

    /// Accepted for VMA's command lines and without effect: tables grow as needed
    #[arg(short, long, value_name = "SIZE")]
    pub fid: Option<u32>,

    /// Accepted for VMA's command lines and without effect: resets are always sent by the daemon
    /// itself
    #[arg(long)]
    pub force_rst: bool,

    /// How much to write: 0 nothing, 1 fatal, 2 errors, 3 warnings, 4 information, 5 debug, 6 trace
    #[arg(short, long, value_name = "LEVEL", default_value_t = 4,
          value_parser = clap::value_parser!(u8).range(0..=6))]
    pub verbose: u8,

    /// Milliseconds until a peer that does not answer is asked again; it is asked three times
    #[arg(short, long, value_name = "MSEC", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub retry_interval: u32,

    /// The socket that programs under the original library tell the daemon through
    #[arg(long, value_name = "FILE", default_value = "/var/run/vma_agent.sock")]
    pub socket: PathBuf,

    /// Where the library writes its statistics (its VMA_STATS_SHMEM_DIR)
    #[arg(long, value_name = "DIRECTORY", default_value = "/tmp")]
    pub stats_dir: PathBuf,

    /// Where the running daemon keeps its status
    #[arg(long, value_name = "FILE", default_value = "/run/vmad/status.json")]
    pub status_file: PathBuf,

    /// Watch one process, reset what it leaves open when it ends, and exit. The library starts this
    /// where no daemon runs (VMA_GUARDIAN)
    #[arg(long, value_name = "PID")]
    pub guard: Option<u32>,

    /// Open interfaces for several processes, and serve these, instead of watching processes: see
    /// docs/broker.md. Runs as root
    #[arg(long)]
    pub broker: bool,

    /// The socket that programs ask the broker through (their VMA_BROKER)
    #[arg(long, value_name = "FILE", default_value = stats::BROKER_SOCKET)]
    pub broker_socket: PathBuf,

    /// Whom the broker serves; root and the group vma where there is no such file
    #[arg(long, value_name = "FILE", default_value = "/etc/vma/vmad.conf")]
    pub broker_policy: PathBuf,

    /// Be the broker of this process and what it starts: serve its user, too, in the background,
    /// and end when it has ended and nobody has an interface. vma-run starts this (--broker)
    #[arg(long, value_name = "PID", requires = "broker")]
    pub broker_for: Option<u32>,

    /// It is in the background already
    #[arg(long, hide = true, requires = "broker_for")]
    pub detached: bool,

    /// Where the broker's XDP programs run: auto, native or generic
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = xdp_mode)]
    pub xdp_mode: XdpMode,

    /// Print what the running daemon watches and has done, and whom the running broker serves, and
    /// exit
    #[arg(long)]
    pub status: bool,

    /// The same as JSON, for programs
    #[arg(long, requires = "status")]
    pub json: bool,
}

impl Options {
    /// How long to wait for a peer's answer.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.retry_interval.into())
    }

    /// Options that were given and do nothing.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        [
            (self.pid.is_some(), "--pid"),
            (self.fid.is_some(), "--fid"),
            (self.force_rst, "--force-rst"),
        ]
        .into_iter()
        .filter_map(|(given, name)| given.then_some(name))
        .collect()
    }
}

fn xdp_mode(word: &str) -> Result<XdpMode, &'static str> {
    match word {
        "auto" => Ok(XdpMode::Auto),
        "native" => Ok(XdpMode::Native),
        "generic" => Ok(XdpMode::Generic),
        _ => Err("it is one of auto, native, generic"),
    }
}

/// The command line, for the manual page.
pub fn command() -> clap::Command {
    Options::command()
}

/// Reads the arguments, the program's own name first.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options, clap::Error> {
    Options::try_parse_from(arguments)
}

/// Prints help and version on standard output, errors on standard error.
pub(crate) fn answer(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let is_answer = matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    );
    // There is nowhere to report that the stream is closed.
    if is_answer {
        let _ = io::stdout().lock().write_all(text.as_bytes());
        ExitCode::SUCCESS
    } else {
        let _ = io::stderr().lock().write_all(text.as_bytes());
        ExitCode::FAILURE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Result<Options, String> {
        let words = ["vmad"].into_iter().chain(words.split_whitespace());
        parse(words.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn defaults_are_the_original_ones() {
        let options = options("").unwrap();
        assert_eq!(options.notify_dir, PathBuf::from("/tmp/vma"));
        assert_eq!(options.socket, PathBuf::from("/var/run/vma_agent.sock"));
        assert_eq!((options.verbose, options.retry_interval), (4, 1000));
        assert!(!options.console && options.without_effect().is_empty());
    }

    #[test]
    fn the_original_command_line_is_understood() {
        let short = options("--console -n /d -p 499 -f 65599 --force-rst -v 6 -r 250").unwrap();
        let long = options(
            "--console --notify-dir=/d --pid=499 --fid=65599 --force-rst --verbose=6 --retry-interval=250",
        );
        assert_eq!(short.interval(), Duration::from_millis(250));
        assert_eq!(short.without_effect(), ["--pid", "--fid", "--force-rst"]);
        assert_eq!(Ok(short), long);
    }

    #[test]
    fn bad_values_are_errors() {
        for words in [
            "-v 7",
            "--xdp-mode x",
            "-r 0",
            "-r x",
            "-p x",
            "extra",
            "--daemon",
            "--json",
            "--broker-for 1",
        ] {
            assert!(options(words).is_err(), "{words}");
        }
    }
}
