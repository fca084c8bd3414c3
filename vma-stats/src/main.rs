//! `vma_stats`: shows what the sockets of a process that runs libvma do.

#![forbid(unsafe_code)]

mod basic_view;
mod cli;
mod explain;
mod json;
mod message;
mod preloaded;
mod rate;
mod run;
mod sample;
mod select;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Without it, a file that is cut while it is read ends this program; nothing else is wrong.
    let _ = stats::survive_truncations();
    match cli::parse(std::env::args_os()) {
        cli::Parsed::Run(options) => run::run(&options),
        cli::Parsed::Done(code) => code,
    }
}
