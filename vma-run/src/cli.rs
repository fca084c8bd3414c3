//! The command line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use vma_config::Spec;

use crate::broker::Wish;

/// Runs a program with libvma preloaded.
///
/// Before that it looks at what acceleration needs, and says on standard error what is missing and
/// how to mend it; the program runs in any case. With --check, it prints a report of the machine
/// instead.
#[derive(Debug, Parser, PartialEq, Eq)]
#[command(
    name = "vma-run",
    version,
    override_usage = "vma-run [OPTIONS] PROGRAM [ARGUMENT]...\n       vma-run --check [--measure] [--json]"
)]
pub(crate) struct Options {
    /// Profile of settings for the program (VMA_SPEC), such as latency
    #[arg(short, long, value_name = "PROFILE", value_parser = spec)]
    pub(crate) spec: Option<String>,

    /// Say whether this machine and this user can accelerate sockets, and exit
    #[arg(long)]
    pub(crate) check: bool,

    /// Measure the modes of XDP on each interface, which takes some of its packets' time and on
    /// some drivers its link for seconds; VMA_XDP_MODE=auto goes by it from then on
    #[arg(long, requires = "check")]
    pub(crate) measure: bool,

    /// The same as JSON, for programs
    #[arg(long, requires = "check")]
    pub(crate) json: bool,

    /// Have the processes of the program share interfaces: start a broker (vmad --broker) for it,
    /// where none runs
    #[arg(long, value_name = "WHEN", default_value = "no", value_enum)]
    pub(crate) broker: Wish,

    /// Do not say what is missing
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Preload this file; without it, the one beside this program, else that of the system
    #[arg(short, long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,

    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required_unless_present = "check"
    )]
    pub(crate) program: Vec<OsString>,
}

/// A name that the library knows.
fn spec(text: &str) -> Result<String, String> {
    if Spec::from_name(text).is_some() {
        return Ok(text.to_owned());
    }
    let names: Vec<_> = Spec::ALL.iter().map(|spec| spec.name()).collect();
    Err(format!("not one of {}", names.join(", ")))
}

pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Options, clap::Error> {
    Options::try_parse_from(arguments)
}

/// Prints help and version on standard output, errors on standard error.
pub(crate) fn answer(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    // There is nowhere to report that the stream is closed.
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = io::stdout().lock().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let _ = io::stderr().lock().write_all(text.as_bytes());
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn options(words: &str) -> Result<Options, String> {
        let words = ["vma-run"].into_iter().chain(words.split_whitespace());
        parse(words.map(OsString::from)).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_well_formed() {
        Options::command().debug_assert();
    }

    #[test]
    fn options_behind_the_program_are_its_own() {
        let options = options("-s latency server -q --check -s x").unwrap();
        assert_eq!(options.spec.as_deref(), Some("latency"));
        assert!(!options.quiet && !options.check);
        assert_eq!(options.program, ["server", "-q", "--check", "-s", "x"]);
    }

    #[test]
    fn an_option_that_there_is_not_is_no_program() {
        let error = options("--foo").unwrap_err();
        assert!(error.contains("--foo"), "{error}");
        assert!(options("--json program").is_err());
        assert!(options("--measure program").is_err());
        assert_eq!(options("-- --foo").unwrap().program, ["--foo"]);
    }

    #[test]
    fn a_program_or_a_check_is_needed() {
        assert!(options("").is_err());
        assert!(options("--check").unwrap().check);
    }

    #[test]
    fn a_broker_is_started_only_where_it_is_asked_for() {
        assert_eq!(options("program").unwrap().broker, Wish::No);
        assert_eq!(options("--broker auto program").unwrap().broker, Wish::Auto);
        assert_eq!(options("--broker=yes program").unwrap().broker, Wish::Yes);
        assert!(options("--broker maybe program").is_err());
    }

    #[test]
    fn a_profile_is_one_that_the_library_knows() {
        assert!(options("-s LATENCY program").is_ok());
        let error = options("-s fast program").unwrap_err();
        assert!(error.contains("latency"), "{error}");
    }
}
