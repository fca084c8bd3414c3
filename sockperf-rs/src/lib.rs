//! A sockperf-compatible network benchmark.
//!
//! [`run()`] is the whole program. [`args`] reads a command line into [`options`], by the table of
//! [`table`]; [`session`] makes the sockets ([`open`]), runs the test and shows its results ([`report`],
//! [`json`], [`html`]).
//!
//! A message leaves by [`sender`] (under-load, playback, throughput) or [`ping_pong`]; its reply comes
//! back by [`replies`]; [`flight`] brings both together, and [`recorder`] keeps what counts. [`server`] is
//! the other end. The messages on the wire are those of the C++ sockperf ([`message`]), in both
//! directions.

#![deny(unsafe_code)]

pub mod activity;
pub mod address;
pub mod affinity;
pub mod args;
pub mod bins;
pub mod clock;
pub mod compare;
pub mod environment;
pub mod error;
pub mod feed;
pub mod flight;
pub mod full_log;
pub mod hgrm;
pub mod histogram;
pub mod hlog;
pub mod host;
pub mod html;
pub mod inbox;
pub mod intervals;
pub mod json;
#[cfg_attr(not(feature = "live"), path = "no_live.rs")]
pub mod live;
pub mod manual;
pub mod message;
pub mod monitor;
pub mod multicast;
pub mod mux;
pub mod offload;
pub mod open;
pub mod options;
pub mod output;
pub mod pacer;
pub mod payload;
pub mod ping_pong;
pub mod rates;
pub mod recorder;
pub mod replies;
pub mod report;
pub mod round_trips;
pub mod run;
pub mod sample_log;
pub mod sender;
pub mod server;
pub mod session;
pub mod settling;
pub mod socket;
pub mod stamps;
pub mod statistics;
pub mod stop;
pub mod table;
pub mod threads;
pub mod ticks;
pub mod time_line;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub mod tls;
pub mod udp_lat;
pub mod under_load;
mod verdict;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::args::Invocation;
use crate::error::Error;

/// Runs the program under `name` with the arguments that follow it. Errors go to the standard error.
/// Called `sockperf`, it prints what the original prints and nothing else.
pub fn run(name: &OsStr, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let strict = Path::new(name).file_name() == Some(OsStr::new("sockperf"));
    match try_run(arguments, strict) {
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

fn try_run(arguments: impl IntoIterator<Item = OsString>, strict: bool) -> Result<(), Error> {
    let arguments = arguments
        .into_iter()
        .map(|argument| {
            argument.into_string().map_err(|argument| {
                Error::Usage(format!("the argument {argument:?} is not valid UTF-8"))
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let seed = std::env::var("SEED").ok();
    let print = |text: String| {
        io::stdout()
            .write_all(text.as_bytes())
            .map_err(|error| Error::setup("cannot write to the standard output", error))
    };
    match args::parse(arguments, seed.as_deref())? {
        Invocation::Print(text) => print(text),
        Invocation::Compare { first, second } => {
            print(compare::files(Path::new(&first), Path::new(&second))?)
        }
        Invocation::Run(options) => session::run(&options, strict),
    }
}
