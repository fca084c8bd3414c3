//! `vmad`: the peers of a process that dies without closing its connections learn it at once.
//!
//! A connection in user space has nobody to end it when its process is killed: its peer would wait
//! for minutes. The daemon watches processes and, when one ends without a word, resets what it left
//! open.
//!
//! ```text
//! agent socket ── message ──► Registry ── claims of the dead ──► Resets ── probes and resets ──► raw socket
//! statistics directory ─ watch ─┴─ connections of the dead ────────▲
//!                            pidfd ┘                               └── answers of peers ◄── raw socket
//! ```
//!
//! [`Registry`](registry::Registry) and [`Resets`](resets::Resets) are pure: events and the time
//! in, decisions out. `daemon` has the loop; everything that touches the kernel is in a module
//! named after what it touches.
//!
//! **Trust.** Whoever can write to the socket may lie. The kernel says who sent a message; a connection counts only
//! if its local address is this network namespace's, the sender is in this namespace, and no socket
//! or earlier claim of another user has it ([`guard`]). Nobody is reset while a live process has
//! the connection. The same holds for what statistics say, which are read when their process has
//! ended.

#![forbid(unsafe_code)]

mod agent;
mod broker;
pub mod cli;
mod clients;
pub mod connection;
mod daemon;
mod files;
pub mod flows;
pub mod guard;
mod guardian;
mod legacy;
pub mod limit;
mod log;
pub mod message;
pub mod packet;
mod process;
mod raw;
mod redirect;
pub mod registry;
mod reset_driver;
pub mod resets;
mod status;
mod watch;
mod watched;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

/// Runs the program with its command line, its own name first.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Without it, a statistics file that is cut while it is read ends this program; nothing else is
    // wrong.
    let _ = stats::survive_truncations();
    let options = match cli::parse(arguments) {
        Ok(options) => options,
        Err(error) => return cli::answer(&error),
    };
    if options.status {
        return status::show(&options);
    }
    let log = log::Log::new(options.verbose, options.console);
    let ended = match options.guard {
        Some(pid) => guardian::run(&options, pid, &log),
        None if options.broker_for.is_some() && !options.detached => {
            broker::start_private(&options)
        }
        None if options.broker => broker::run(&options, &log),
        None => daemon::run(&options, &log),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.fatal(format_args!("{error}"));
            if options.broker_for.is_some() {
                // Who has started it reads that.
                let _ = writeln!(std::io::stderr().lock(), "{error}");
            }
            ExitCode::FAILURE
        }
    }
}
