//! `vma-run`: runs a program with libvma preloaded, or says what this machine lacks for it.

#![forbid(unsafe_code)]

mod broker;
mod cli;
mod facts;
mod holder;
mod library;
#[cfg(test)]
mod manual_page;
mod measure;
mod probe;
mod program;
mod report;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::broker::{Outcome, Wish};
use crate::cli::Options;
use crate::facts::{Attempt, Facts};
use crate::report::Report;

/// As a shell's: the program cannot be run, or is not there.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    let options = match cli::parse(env::args_os()) {
        Ok(options) => options,
        Err(error) => return cli::answer(&error),
    };
    let library = library::find(options.library.as_deref());
    let attempt = match (options.check, options.measure) {
        (true, true) => Attempt::Measured,
        (true, false) => Attempt::Made,
        (false, _) => Attempt::Spared,
    };
    let facts = Facts::gather(attempt);
    let report = report::judge(&facts, library.as_ref().ok());
    if options.check {
        let text = match options.json {
            true => format!("{:#}\n", report.json()),
            false => report.to_string(),
        };
        // There is nowhere to report that the stream is closed.
        let _ = io::stdout().lock().write_all(text.as_bytes());
        return if report.is_ready() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        };
    }
    let library = match library {
        Ok(library) => library,
        Err(reason) => return fail(&reason, CANNOT_RUN),
    };
    if !options.quiet {
        complain_of(&report);
        if let Some(program) = options.program.first()
            && let Some(deaf) = program::look_at(program)
        {
            say(&format!("{} {}", program.display(), deaf.words()));
        }
    }
    let broker = match broker::arrange(options.broker, facts.capabilities, &library) {
        Ok(Outcome::Started(socket)) => Some(socket),
        Ok(Outcome::AsBefore) => None,
        Err(why) if options.broker == Wish::Yes => return fail(&why, CANNOT_RUN),
        Err(why) => {
            if !options.quiet {
                say(&format!("no broker is started: {why}"));
            }
            None
        }
    };
    launch(&options, library.into_os_string(), broker)
}

/// What keeps sockets from being accelerated, in few lines: the program runs all the same.
fn complain_of(report: &Report) {
    for finding in report.missing() {
        say(&finding.to_string());
    }
    if !report.is_ready() {
        say("the program runs on the kernel; vma-run --check has the whole report");
    }
}

/// Becomes the program. Returns only if that fails.
fn launch(options: &Options, library: OsString, broker: Option<PathBuf>) -> ExitCode {
    let Some((program, arguments)) = options.program.split_first() else {
        return fail("no program was named", CANNOT_RUN);
    };
    let mut command = Command::new(program);
    command.args(arguments).env(
        "LD_PRELOAD",
        library::preload(library, env::var_os("LD_PRELOAD")),
    );
    if let Some(spec) = &options.spec {
        command.env("VMA_SPEC", spec);
    }
    if let Some(socket) = broker {
        command.env(broker::VARIABLE, socket);
    }
    let error = command.exec();
    let status = if error.kind() == io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        CANNOT_RUN
    };
    fail(&format!("{}: {error}", program.display()), status)
}

fn fail(reason: &str, status: u8) -> ExitCode {
    say(reason);
    ExitCode::from(status)
}

/// There is nowhere to report that the standard error is closed.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "vma-run: {text}");
}
