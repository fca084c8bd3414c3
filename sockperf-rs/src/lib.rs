//! A sockperf-compatible network benchmark.
//!
//! [`run()`] is the whole program. A folder uses those below it in this list only:
//!
//! * [`session`], [`udp_lat`]: a run, from the sockets to the results;
//! * [`output`]: what is shown and written of it;
//! * [`client`], [`server`]: the two ends;
//! * [`measure`]: from events to statistics, and what belongs to a measurement;
//! * [`net`]: addresses, sockets and messages of a stream;
//! * [`options`]: what the command line asks for;
//! * [`message`], [`terminal`], [`tls`], [`sys`], [`error`].
//!
//! A message leaves by [`client::sender`] (under-load, playback, throughput) or
//! [`client::ping_pong`]; its reply comes back by [`client::replies`]; [`client::flight`] brings
//! both together, and [`measure::recorder`] keeps what counts. The messages on the wire are those
//! of the C++ sockperf ([`message`]), in both directions.

#![deny(unsafe_code)]

pub mod client;
pub mod error;
pub mod measure;
pub mod message;
pub mod net;
pub mod options;
pub mod output;
pub mod server;
pub mod session;
pub mod sys;
pub mod terminal;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
pub mod tls;
pub mod udp_lat;

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use crate::error::{Error, complain};
use crate::options::args::{self, Invocation};
use crate::output::compare;
use crate::sys::preload;

/// Runs the program under `name` with the arguments that follow it. Errors go to the standard
/// error. Called `sockperf`, it prints what the original prints and nothing else.
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
        Invocation::Compare {
            first,
            second,
            html,
        } => {
            let html = html.as_deref().map(Path::new);
            print(compare::files(Path::new(&first), Path::new(&second), html)?)
        }
        Invocation::Run(options) => {
            if let Some(path) = &options.common().load_vma {
                preload::load(path)?;
            }
            session::run(&options, strict)
        }
    }
}
