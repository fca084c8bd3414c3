//! What shells complete: commands, and the options of each.

use std::fmt::Write;

use crate::options::Mode;
use crate::options::table::{OPTIONS, OptionSpec};

/// The shells that are known.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The script for a shell; `None`: it is not known.
pub fn script(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash()),
        // It runs those of bash.
        "zsh" => Some(format!(
            "autoload -U +X compinit bashcompinit && compinit && bashcompinit\n{}",
            bash()
        )),
        "fish" => Some(fish()),
        _ => None,
    }
}

fn of_mode(mode: Mode) -> impl Iterator<Item = &'static OptionSpec> {
    let options = OPTIONS.iter();
    options.filter(move |option| option.modes.contains(&mode) && option.refusal().is_none())
}

/// The commands that are no tests.
const OTHERS: [&str; 3] = ["compare", "completions", "help"];

fn bash() -> String {
    let commands: Vec<_> = Mode::ALL
        .map(Mode::name)
        .into_iter()
        .chain(OTHERS)
        .collect();
    let commands = commands.join(" ");
    let mut cases = String::new();
    for mode in Mode::ALL {
        let names = of_mode(mode).flat_map(|option| option.long);
        let names: Vec<_> = names.map(|name| format!("--{name}")).collect();
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            cases,
            "        {}|{}) words='{} --help' ;;",
            mode.name(),
            mode.alias(),
            names.join(" ")
        );
    }
    format!(
        "_sockperf_rs() {{\n    local words= word=${{COMP_WORDS[COMP_CWORD]}}\n    \
         if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '{commands}' -- \"$word\"))\n        return\n    \
         fi\n    case ${{COMP_WORDS[1]}} in\n{cases}    esac\n    case $word in\n        \
         -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n        \
         *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}}\n\
         complete -o filenames -F _sockperf_rs sockperf-rs\n"
    )
}

fn fish() -> String {
    let mut text = String::new();
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    for mode in Mode::ALL {
        let _ = writeln!(
            text,
            "complete -c sockperf-rs -n __fish_use_subcommand -a {} -d {}",
            mode.name(),
            quoted(mode.about())
        );
        for option in of_mode(mode) {
            let names = option.long.iter().map(|name| format!(" -l {name}"));
            let short = option.short.map(|letter| format!(" -s {letter}"));
            let _ = writeln!(
                text,
                "complete -c sockperf-rs -n '__fish_seen_subcommand_from {} {}'{}{} -d {}",
                mode.name(),
                mode.alias(),
                names.collect::<String>(),
                short.unwrap_or_default(),
                quoted(option.help)
            );
        }
    }
    for name in OTHERS {
        let _ = writeln!(
            text,
            "complete -c sockperf-rs -n __fish_use_subcommand -a {name}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What bash offers for these words, the last of which is not whole.
    fn offered(words: &str) -> Vec<String> {
        let count = words.split(' ').count() - 1;
        let program = format!(
            "{}COMP_WORDS=({words}); COMP_CWORD={count}; _sockperf_rs; echo \"${{COMPREPLY[@]}}\"",
            script("bash").unwrap()
        );
        let output = Command::new("bash")
            .args(["-c", &program])
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_commands_and_options() {
        assert_eq!(offered("sockperf-rs thr"), ["throughput"]);
        assert_eq!(offered("sockperf-rs p"), ["ping-pong", "playback"]);
        assert_eq!(offered("sockperf-rs pp --sender-a"), ["--sender-affinity"]);
        assert_eq!(offered("sockperf-rs playback --data-f"), ["--data-file"]);
        assert!(offered("sockperf-rs pp --data-f").is_empty());
        assert!(offered("sockperf-rs nosuch --x").is_empty());
    }

    #[test]
    fn every_shell_has_every_option() {
        for shell in SHELLS {
            let text = script(shell).unwrap();
            for option in OPTIONS.iter().filter(|option| option.refusal().is_none()) {
                assert!(text.contains(option.key()), "{shell}: {}", option.key());
            }
        }
        assert_eq!(script("csh"), None);
    }
}
