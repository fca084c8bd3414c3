//! A sockperf-compatible network benchmark for UDP.
//!
//! [`run`] is the whole program. The modules below it can be used on their own: [`args`] reads a
//! command line, [`socket`] makes the sockets, and [`server`], [`ping_pong`] and [`throughput`] run
//! on them until a [`stop::Stop`] is requested or the test is over; [`report`] and [`json`] present
//! the results. The messages on the wire are those of the C++ sockperf ([`message`]), in both
//! directions.

#![forbid(unsafe_code)]

pub mod activity;
pub mod affinity;
pub mod args;
pub mod bins;
pub mod clock;
pub mod error;
pub mod flight;
pub mod full_log;
pub mod gaps;
pub mod histogram;
pub mod host;
pub mod json;
pub mod message;
pub mod options;
pub mod output;
pub mod pacer;
pub mod payload;
pub mod ping_pong;
pub mod recorder;
pub mod report;
pub mod server;
pub mod session;
pub mod socket;
pub mod statistics;
pub mod stop;
pub mod table;
pub mod throughput;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::args::Invocation;
use crate::error::Error;

/// Runs the program with the arguments that follow its name. Errors go to the standard error.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match try_run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("ERROR: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// Writes one line with the program's prefix to the standard error.
pub(crate) fn complain(text: impl std::fmt::Display) {
    // There is nowhere to report that the standard error is closed.
    writeln!(io::stderr().lock(), "sockperf: {text}").ok();
}

fn try_run(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Error> {
    let arguments = arguments
        .into_iter()
        .map(|argument| {
            argument.into_string().map_err(|argument| {
                Error::Usage(format!("the argument {argument:?} is not valid UTF-8"))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let seed = std::env::var("SEED").ok();
    match args::parse(arguments, seed.as_deref())? {
        Invocation::Print(text) => io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| Error::setup("cannot write to the standard output", error)),
        Invocation::Run(options) => session::run(&options),
    }
}
