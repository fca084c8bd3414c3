//! The command line.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use stats::SectionInfo;

use crate::capture::Capture;
use crate::fd_list::FdList;
use crate::message::tell;

mod arguments;
mod values;

use arguments::Arguments;

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
    Prometheus {
        address: Option<SocketAddr>,
        /// A series for each socket instead of sums.
        is_single: bool,
    },
    /// Of the broker with this socket.
    Broker {
        socket: PathBuf,
        is_json: bool,
    },
    /// JSON into a file.
    Record(PathBuf),
    /// In words, of all sockets or one.
    Words(Option<i32>),
    /// Packets instead of statistics.
    Capture(Box<Capture>),
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
    let arguments = match Arguments::try_parse_from(modern(arguments)) {
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

/// The first versions of the original were called with a process id, and a view behind it:
/// `vma_stats PID [VIEW]`. Scripts still do.
fn modern(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_number = |it: &OsString| it.to_str().is_some_and(|it| it.parse::<u32>().is_ok());
    let is_old = (2..=3).contains(&arguments.len()) && arguments.iter().skip(1).all(is_number);
    if is_old {
        if arguments.len() == 3 {
            arguments.insert(2, "-v".into());
        }
        arguments.insert(1, "-p".into());
    }
    arguments
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

#[cfg(test)]
mod tests;
