//! The help texts, in the layout of the original.

use crate::options::Mode;
use crate::options::table::{OPTIONS, OptionSpec, Value};

/// The list of commands.
pub(super) fn general() -> String {
    let mut text = String::from(
        "Usage: sockperf-rs <command> [options] [args]\n\
         Try: sockperf-rs <command> --help for help on a specific command.\n\
         \n\
         Available commands:\n",
    );
    let modes = Mode::ALL.map(|mode| (format!("{} ({})", mode.name(), mode.alias()), mode.about()));
    let others = [
        (
            "compare",
            "Compare two runs that --json has saved; with --html FILE, also as a page.",
        ),
        (
            "completions",
            "Print what bash, zsh or fish complete: completions SHELL.",
        ),
        (
            "help (h ,?)",
            "Show this list, or with a command its options.",
        ),
        ("--version", "Show the version."),
    ]
    .map(|(name, about)| (name.to_owned(), about));
    for (name, about) in modes.iter().chain(&others) {
        text += &format!("   {name:<20}\t{about}\n");
    }
    text
}

/// The version.
pub(super) fn version() -> String {
    format!("sockperf-rs, version {}\n", env!("CARGO_PKG_VERSION"))
}

/// The options of a command.
pub(super) fn of(mode: Mode) -> String {
    let name = mode.name();
    let mut text = format!("{name} ({}): {}\n\n", mode.alias(), mode.about());
    text += &format!("Usage: sockperf-rs {name} [options] [args]...\n");
    for form in forms(mode) {
        text += &format!(" sockperf-rs {name} {form}\n");
    }
    text += "\nOptions:\n";
    text += &line("-h,-?", "--help,--usage", "Show this text and exit");
    let of_mode = || OPTIONS.iter().filter(|option| option.modes.contains(&mode));
    let common = of_mode().filter(|option| option.is_common());
    text.extend(common.map(option_line));
    text += "\nValid arguments:\n";
    let special = of_mode().filter(|option| !option.is_common());
    text.extend(special.map(option_line));
    text + "\n"
}

fn forms(mode: Mode) -> [&'static str; 2] {
    match mode {
        Mode::Server => ["[-i address] [-p port] [--tcp]", "-f file [-F s/p/e]"],
        Mode::Playback => [
            "-i address [-p port] --data-file file",
            "-f file [-F s/p/e] --data-file file",
        ],
        _ => [
            "-i address [-p port] [-m size] [-t time]",
            "-f file [-F s/p/e] [-m size] [-r range] [-t time]",
        ],
    }
}

fn option_line(option: &OptionSpec) -> String {
    let short = option.short.map(|letter| format!("-{letter}"));
    let long: Vec<String> = option.long.iter().map(|name| format!("--{name}")).collect();
    let value = match option.value {
        Value::Switch => String::new(),
        Value::Required(name) => format!(" <{name}>"),
        Value::Optional(name) => format!(" [<{name}>]"),
    };
    let help = match option.refusal() {
        Some(reason) => format!("{}; not supported: {reason}", option.help),
        None => option.help.to_owned(),
    };
    let long = long.join(",") + &value;
    line(&short.unwrap_or_default(), &long, &help)
}

fn line(short: &str, long: &str, help: &str) -> String {
    const LONG_WIDTH: usize = 21;
    let start = format!(" {short:<7} {long:<LONG_WIDTH$}");
    let start = match long.len() > LONG_WIDTH {
        true => format!("{start}\n{:30}", ""),
        false => start,
    };
    format!("{start}\t-{}\n", wrapped(&format!("{help}.")))
}

/// Columns in front of a text, the tab's end and the dash, and of a whole line.
const INDENT: usize = 33;
const WIDTH: usize = 100;

/// The text, continued below its beginning.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        if used > 0 && INDENT + used + 1 + word.len() > WIDTH {
            lines += &format!("\n{:INDENT$}", "");
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines += word;
        used += word.len();
    }
    lines
}
