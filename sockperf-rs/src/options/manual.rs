//! The pages that are generated from the table of options: `docs/sockperf-rs.md` and
//! `man/sockperf-rs.1`.

use crate::options::Mode;
use crate::options::table::{Effect, OPTIONS, OptionSpec, Value};

/// The text of `docs/sockperf-rs.md`.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Options of sockperf-rs\n\nGenerated from `sockperf-rs/src/options/table/entries.rs` by `cargo xtask \
         docs`. Values can be written `-t5`, `-t 5`, `-t=5`, `--time 5` and `--time=5`; one that begins \
         with `-` needs the form with `=`. Numbers may be decimal, hexadecimal (`0x`) or octal (`0`).\n\n\
         Modes: ul under-load, pp ping-pong, pb playback, tp throughput, sr server.\n\n\
         | option | modes | what it does |\n|---|---|---|\n",
    );
    for option in OPTIONS {
        let names: Vec<String> = option
            .names()
            .split(", ")
            .map(|name| format!("`{name}`"))
            .collect();
        let value = match option.value {
            Value::Switch => String::new(),
            Value::Required(name) => format!(" *{}*", name.replace('|', "\\|")),
            Value::Optional(name) => format!(" \\[*{}*\\]", name.replace('|', "\\|")),
        };
        let help = option.help.replace('|', "\\|").replace('[', "\\[");
        let note = match option.effect {
            Effect::Original => String::new(),
            Effect::Own => " Not in the original.".to_owned(),
            Effect::WithFeature(name) => format!(" Only in a build with the feature `{name}`."),
            Effect::Refused(reason) => format!(" **Not supported**: {reason}."),
        };
        text += &format!(
            "| {}{value} | {} | {help}.{note} |\n",
            names.join(" "),
            modes(option)
        );
    }
    text
}

/// The text of `man/sockperf-rs.1`.
pub fn man_page() -> String {
    let mut text = String::from(
        ".TH SOCKPERF-RS 1 \"\" libvma-rs\n.SH NAME\nsockperf-rs \\- network latency and throughput \
         benchmark\n.SH SYNOPSIS\n",
    );
    for mode in Mode::ALL {
        text += &format!(
            ".B sockperf-rs {}\n.RI [ options ]\n.br\n",
            roff(mode.name())
        );
    }
    text += ".B sockperf-rs compare\n.I first.json second.json\n.RB [ \\-\\-html\n.IR file ]\n.SH DESCRIPTION\nA benchmark with the \
             command line, the output and the messages of sockperf. It works with the original at the \
             other end. Called under the name\n.BR sockperf ,\nit prints what the original prints and \
             nothing else.\n.SH COMMANDS\n";
    for mode in Mode::ALL {
        text += &format!(
            ".TP\n.BR {} \", \" {}\n{}\n",
            roff(mode.name()),
            mode.alias(),
            roff(mode.about())
        );
    }
    text += ".TP\n.B compare\nCompare two runs that \\-\\-json has saved; with \\-\\-html also as a page with charts of both.\n.TP\n.B completions\nPrint what bash, zsh or fish complete.\n.SH OPTIONS\n";
    for option in OPTIONS {
        let value = match option.value {
            Value::Switch => String::new(),
            Value::Required(name) => format!(" \\fI{}\\fR", roff(name)),
            Value::Optional(name) => format!(" [\\fI{}\\fR]", roff(name)),
        };
        text += &format!(
            ".TP\n\\fB{}\\fR{value} ({})\n{}.\n",
            roff(&option.names()),
            modes(option),
            roff(option.help)
        );
        match option.effect {
            Effect::Original => {}
            Effect::Own => text += "Not in the original.\n",
            Effect::WithFeature(name) => {
                text += &format!("Only in a build with the feature \"{name}\".\n");
            }
            Effect::Refused(reason) => {
                text += &format!("Not supported: {}.\n", roff(reason));
            }
        }
    }
    text + ".SH EXIT STATUS\n" + &exit_status() + ".SH SEE ALSO\n.BR vma (7)\n"
}

fn exit_status() -> String {
    [
        (
            "0",
            "the test has a result, or the server was ended by a signal",
        ),
        (
            "1",
            "the command line is wrong, or something could not be set up",
        ),
        (
            "2",
            "a reply differs from its request (--data-integrity), or a file has bad lines",
        ),
        ("3", "the test ran but has no result"),
        ("4", "a file is not there"),
        ("6", "the peer does not keep to the protocol"),
        ("7", "sending or receiving failed, or the peer closed"),
        ("8", "the packets of -n were not reached in time"),
    ]
    .iter()
    .map(|(code, meaning)| format!(".TP\n.B {code}\n{}.\n", roff(meaning)))
    .collect()
}

fn modes(option: &OptionSpec) -> String {
    if option.is_common() {
        return "all".to_owned();
    }
    let modes: Vec<&str> = option.modes.iter().map(|mode| mode.alias()).collect();
    modes.join(" ")
}

fn roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Fails when a page is not what the table generates, or writes it again when the variable
    /// UPDATE_DOCS is set.
    #[test]
    fn docs_are_current() {
        for (name, page) in [
            ("docs/sockperf-rs.md", markdown()),
            ("man/sockperf-rs.1", man_page()),
        ] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
            if std::env::var_os("UPDATE_DOCS").is_some() {
                fs::write(&path, &page).unwrap();
            }
            let stored = fs::read_to_string(&path).unwrap_or_default();
            assert!(
                stored == page,
                "{name} differs from the table of options; to write it again, run\n    \
                 UPDATE_DOCS=1 cargo test -p sockperf-rs docs_are_current"
            );
        }
    }

    #[test]
    fn pages_name_every_option() {
        let (markdown, man_page) = (markdown(), man_page());
        for option in OPTIONS {
            for name in option.long {
                assert!(markdown.contains(&format!("`--{name}`")), "{name}");
                assert!(man_page.contains(&roff(&format!("--{name}"))), "{name}");
            }
        }
        assert!(man_page.is_ascii());
    }
}
