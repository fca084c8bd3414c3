//! From the command line to [`Options`].

use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use crate::error::Error;
use crate::options::completions::{self, SHELLS};
use crate::options::table::{OPTIONS, OptionSpec, Value};
use crate::options::{Mode, Options};

mod client;
mod common;
mod given;
mod help;
mod sharing;

use given::Given;

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(clippy::large_enum_variant, reason = "there is one per process")]
pub enum Invocation {
    /// Print this text and end.
    Print(String),
    /// Run a test or a server.
    Run(Options),
    /// Compare two JSON documents.
    Compare {
        /// The file of the first run.
        first: String,
        /// The file of the second run.
        second: String,
        /// The file of a report with both.
        html: Option<String>,
    },
}

/// Reads the arguments that follow the program name. `seed` is the value of the variable `SEED`.
pub fn parse<I>(arguments: I, seed: Option<&str>) -> Result<Invocation, Error>
where
    I: IntoIterator<Item = String>,
{
    let mut arguments = arguments.into_iter();
    let Some(word) = arguments.next() else {
        return Ok(Invocation::Print(help::general()));
    };
    let arguments: Vec<String> = arguments.collect();
    match word.as_str() {
        "help" | "h" | "?" if !arguments.is_empty() => {
            let word = &arguments[0];
            let mode = Mode::from_word(word).ok_or_else(|| unknown_command(word))?;
            return Ok(Invocation::Print(help::of(mode)));
        }
        "help" | "h" | "?" | "--help" | "-h" => return Ok(Invocation::Print(help::general())),
        "--version" => return Ok(Invocation::Print(help::version())),
        "completions" => {
            let shell = arguments.first().map_or("", String::as_str);
            let script = completions::script(shell)
                .ok_or_else(|| usage(format!("completions takes one of {}", SHELLS.join(", "))))?;
            return Ok(Invocation::Print(script));
        }
        "compare" => {
            return compared(arguments);
        }
        _ => {}
    }
    let Some(mode) = Mode::from_word(&word) else {
        return Err(unknown_command(&word));
    };
    // The original skips a lone dash at the start.
    let skipped = usize::from(arguments.first().is_some_and(|word| word == "-"));
    let words = arguments.iter().skip(skipped);
    let matches = command(mode)
        .try_get_matches_from([&word].into_iter().chain(words))
        .map_err(|error| usage(usage_message(&error, &arguments, mode)))?;
    if matches.get_flag(HELP) {
        return Ok(Invocation::Print(help::of(mode)));
    }
    let given = Given::new(&matches);
    refuse_others(&given, mode)?;
    let options = match mode {
        Mode::Server => Options::Server(common::server(&given)?),
        _ => Options::Client(client::client(&given, mode, seed)?),
    };
    Ok(Invocation::Run(options))
}

/// `compare FIRST SECOND [--html FILE]`
fn compared(mut arguments: Vec<String>) -> Result<Invocation, Error> {
    let at = arguments.iter().position(|word| word == "--html");
    let html = at.filter(|at| at + 1 < arguments.len()).map(|at| {
        arguments.remove(at);
        arguments.remove(at)
    });
    let [first, second] = <[String; 2]>::try_from(arguments)
        .map_err(|_| usage("compare takes two files that --json wrote, and --html FILE"))?;
    Ok(Invocation::Compare {
        first,
        second,
        html,
    })
}

/// With the nearest one, if any is near.
fn unknown_command(word: &str) -> Error {
    let known = Mode::ALL.map(Mode::name);
    let known = known.into_iter().chain(["compare", "completions", "help"]);
    let argument = Arg::new("command").value_parser(PossibleValuesParser::new(known));
    let error = Command::new(env!("CARGO_PKG_NAME"))
        .no_binary_name(true)
        .arg(argument)
        .try_get_matches_from([word]);
    let nearest = error.err().and_then(|error| suggestion(&error));
    let hint = nearest.map_or_else(String::new, |name| format!("; did you mean {name}?"));
    usage(format!(
        "unknown command '{word}'{hint}; see sockperf-rs help"
    ))
}

/// What the parser takes for what was meant.
fn suggestion(error: &clap::Error) -> Option<String> {
    let found = [ContextKind::SuggestedArg, ContextKind::SuggestedValue].map(|it| error.get(it));
    found.into_iter().flatten().find_map(|value| match value {
        ContextValue::String(name) => Some(name.clone()),
        ContextValue::Strings(names) => names.first().cloned(),
        _ => None,
    })
}

const HELP: &str = "help";

/// The commands with their options, for the manual page.
pub fn commands() -> Vec<Command> {
    [Mode::PingPong, Mode::Throughput, Mode::Server]
        .map(command)
        .into()
}

fn command(mode: Mode) -> Command {
    let help = Arg::new(HELP)
        .long(HELP)
        .visible_alias("usage")
        .short('h')
        .visible_short_alias('?')
        .action(ArgAction::SetTrue);
    Command::new(mode.name())
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help)
        .args(OPTIONS.iter().map(|option| argument(option, mode)))
}

fn argument(option: &OptionSpec, mode: Mode) -> Arg {
    let argument = Arg::new(option.key())
        .long(option.key())
        .visible_aliases(option.long.iter().skip(1))
        .short(option.short);
    if !option.modes.contains(&mode) || option.refusal().is_some() {
        // Taken with any or no value, to be refused by name.
        return argument.num_args(0..=1).action(ArgAction::Append);
    }
    match option.value {
        Value::Required(_) => argument.action(ArgAction::Set),
        Value::Optional(_) => argument.num_args(0..=1).action(ArgAction::Set),
        Value::Switch => argument.action(ArgAction::SetTrue),
    }
}

/// Refuses the options that this mode or this program does not have.
fn refuse_others(given: &Given<'_>, mode: Mode) -> Result<(), Error> {
    for option in OPTIONS.iter().filter(|option| given.has(option.key())) {
        let name = option.display();
        if !option.modes.contains(&mode) {
            return Err(usage(format!(
                "{name} has no meaning in {} mode",
                mode.name()
            )));
        }
        if let Some(reason) = option.refusal() {
            return Err(usage(format!("{name} is not supported: {reason}")));
        }
    }
    Ok(())
}

/// The words of the original where it has any, else the parser's own.
fn usage_message(error: &clap::Error, arguments: &[String], mode: Mode) -> String {
    let hint = format!("see sockperf-rs {} --help", mode.name());
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(name)) => name.as_str(),
        _ => "",
    };
    let key = named.split([' ', '=', '[']).next().unwrap_or_default();
    let option = OPTIONS.iter().find(|option| option.matches(key));
    let word = arguments
        .iter()
        .rfind(|word| option.is_some_and(|option| option.matches(word)))
        .map_or(key, String::as_str);
    let token = match word.strip_prefix("--") {
        Some(_) => word.split_once('=').map_or(word, |(name, _)| name),
        None => word.get(..2).unwrap_or(word),
    };
    let complaint = match error.kind() {
        ErrorKind::InvalidValue if error.to_string().contains("a value is required") => {
            "should have an argument"
        }
        ErrorKind::TooManyValues => "should not have an argument",
        ErrorKind::ArgumentConflict => "should not be repeatable",
        _ => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let first = text.split("\n\n").next().unwrap_or(text).trim_end();
            let meant = suggestion(error).map(|name| format!("; did you mean {name}?"));
            return format!("{first}{}; {hint}", meant.unwrap_or_default());
        }
    };
    format!("Option {token} {complaint}; {hint}")
}

fn usage(message: impl Into<String>) -> Error {
    Error::Usage(message.into())
}

#[cfg(test)]
mod tests;
