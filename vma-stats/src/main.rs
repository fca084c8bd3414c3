//! `vma_stats`: shows what the sockets of a process that runs libvma do.

#![forbid(unsafe_code)]

mod capture;
mod cli;
mod control;
mod csv;
mod explain;
mod fd_list;
mod json;
mod kernel_table;
#[cfg(test)]
mod manual_page;
mod message;
mod overview;
mod preloaded;
mod prometheus;
mod rate;
mod run;
mod sample;
mod select;
mod source;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod terminal_for_tests;
mod tui;
mod views;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Without it, a file that is cut while it is read ends this program; nothing else is wrong.
    let _ = stats::survive_truncations();
    match cli::parse(std::env::args_os()) {
        cli::Parsed::Run(options) => run::run(&options),
        cli::Parsed::Done(code) => code,
    }
}
