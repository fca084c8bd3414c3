//! `cargo xtask`: everything a developer runs here, and nothing that a user of the library needs.
//!
//! Results go to standard output, progress and errors to standard error. See `arguments` for the
//! commands, and a module named after each.

#![forbid(unsafe_code)]

mod arguments;
mod bench;
mod busy;
mod cargo;
mod checks;
mod debian;
mod demo;
mod failure;
mod family;
mod fresh;
mod fuzz;
mod instructions;
mod interrupt;
mod licences;
mod machine;
mod measure;
mod median;
mod needs;
mod output;
mod package;
mod packets;
mod process;
mod setup;
mod sockperf;
mod table;

use std::process::ExitCode;

use arguments::Task;
use failure::Failure;

fn main() -> ExitCode {
    match arguments::parse(std::env::args_os()).and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if matches!(failure, Failure::Interrupted) {
                family::end();
            }
            output::tell(format_args!("xtask: {failure}"));
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(task: Task) -> Result<(), Failure> {
    interrupt::install()?;
    match task {
        Task::Help => output::print(arguments::USAGE),
        Task::Setup { tries: false } => setup::everything(),
        Task::Setup { tries: true } => setup::everything().and_then(|()| tell(fresh::try_out())),
        Task::Demo => demo::run(),
        Task::Test { extent, loudness } => checks::run(extent, loudness),
        Task::Fuzz { seconds } => fuzz::run(seconds),
        Task::Bench(options) => bench::run(&options),
        Task::Compare { rounds } => bench::compare(rounds),
        Task::Instructions { update } => instructions::run(update),
        Task::Package { libc, tries } => package::run(libc, tries),
        Task::Machine => tell(machine::try_out()),
        Task::Docs => cargo::regenerate_documents(),
    }
}

/// Prints what came of a trial.
fn tell(what: Result<String, Failure>) -> Result<(), Failure> {
    output::print(&format!("{}\n", what?))
}
