//! Every option, once: the parser, the help texts, the manual and the refusals come from this
//! table.

use crate::options::Mode;

mod entries;

pub use entries::OPTIONS;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Long names without the dashes; the first one is also the key of the value.
    pub long: &'static [&'static str],
    /// Letter of the short form.
    pub short: Option<char>,
    /// Whether it takes a value.
    pub value: Value,
    /// Where it can be used.
    pub modes: &'static [Mode],
    /// Text for `--help`.
    pub help: &'static str,
    /// What it does here.
    pub effect: Effect,
}

/// Whether an option takes a value, and its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// None.
    Switch,
    /// Always.
    Required(&'static str),
    /// With or without.
    Optional(&'static str),
}

/// What an option does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// What its text says; the original has it, too.
    Original,
    /// What its text says; the original does not have it.
    Own,
    /// What its text says, in a build with this feature; the original has it, too.
    WithFeature(&'static str),
    /// Nothing: it is answered with an error that gives this reason.
    Refused(&'static str),
}

/// Whether this build has a feature.
fn has_feature(name: &str) -> bool {
    name == "tls" && cfg!(feature = "tls")
}

impl OptionSpec {
    /// The key of the value.
    pub fn key(&self) -> &'static str {
        self.long.first().copied().unwrap_or_default()
    }

    /// How to name the option in a message: `--time (-t)`.
    pub fn display(&self) -> String {
        match self.short {
            Some(letter) => format!("--{} (-{letter})", self.key()),
            None => format!("--{}", self.key()),
        }
    }

    /// All names: `-t, --time`.
    pub fn names(&self) -> String {
        let short = self.short.map(|letter| format!("-{letter}"));
        let long = self.long.iter().map(|name| format!("--{name}"));
        short.into_iter().chain(long).collect::<Vec<_>>().join(", ")
    }

    /// Why it is not supported here; `None` if it is.
    pub fn refusal(&self) -> Option<String> {
        match self.effect {
            Effect::Original | Effect::Own => None,
            Effect::WithFeature(name) if has_feature(name) => None,
            Effect::WithFeature(name) => Some(format!(
                "this sockperf-rs was built without the feature \"{name}\""
            )),
            Effect::Refused(reason) => Some(reason.to_owned()),
        }
    }

    /// Whether all modes have it.
    pub fn is_common(&self) -> bool {
        self.modes.len() == Mode::ALL.len()
    }

    /// Whether `word` is this option with or without a value.
    pub fn matches(&self, word: &str) -> bool {
        if let Some(name) = word.strip_prefix("--") {
            let name = name.split_once('=').map_or(name, |(name, _)| name);
            return self.long.contains(&name);
        }
        let letter = word.strip_prefix('-').and_then(|rest| rest.chars().next());
        letter.is_some() && letter == self.short
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names = HashSet::from(["help", "usage", "h", "?"].map(str::to_owned));
        for option in OPTIONS {
            for name in option.long {
                assert!(names.insert((*name).to_owned()), "--{name}");
            }
            if let Some(letter) = option.short {
                assert!(names.insert(letter.to_string()), "-{letter}");
            }
        }
    }

    #[test]
    fn every_option_has_names_a_place_and_a_text() {
        for option in OPTIONS {
            assert!(!option.key().is_empty());
            assert!(!option.modes.is_empty(), "{}", option.display());
            assert!(option.help.len() > 10, "{}", option.display());
            assert!(option.help.is_ascii() && !option.help.ends_with('.'));
        }
    }

    /// The names that sockperf 3.7 and 3.10 print in their help texts.
    #[test]
    fn every_option_of_the_original_is_there() {
        let names = "tcp stream addr ip port file iomux-type timeout activity Activity \
            tcp-avoid-nodelay tcp-skip-blocking-send tos mc-rx-ip mc-rx-if mc-tx-ip mc-tx-if \
            mc-loopback-enable mc-ttl mc-source-filter uc-reuseaddr lls buffer-size nonblocked \
            recv_looping_num dontwarmup pre-warmup-wait zcopyread vmazcopyread daemonize no-rdtsc \
            load-vma load-xlio rate-limit set-sock-accl tls debug sender-affinity receiver-affinity \
            full-log full-rtt giga-size increase_output_precision tcp_nb_connect_timeout_ms \
            dummy-send srv-num time number-of-packets client_port client_ip client_addr burst mps \
            pps msg-size range data-integrity ci_sig_level histogram reply-every data-file \
            threads-num cpu-affinity rxfiltercb vmarxfiltercb force-unicast-reply dont-reply \
            gap-detection";
        for name in names.split_whitespace() {
            let has = |option: &&OptionSpec| option.long.contains(&name);
            let option = OPTIONS.iter().find(has);
            assert!(
                option.is_some_and(|option| option.effect != Effect::Own),
                "--{name}"
            );
        }
    }

    #[test]
    fn words_are_recognized() {
        let time = OPTIONS
            .iter()
            .find(|option| option.key() == "time")
            .unwrap();
        for word in ["-t", "-t5", "-t=5", "--time", "--time=5"] {
            assert!(time.matches(word), "{word}");
        }
        for word in ["t", "-T", "--tim", "--times", "-", "--", ""] {
            assert!(!time.matches(word), "{word}");
        }
    }
}
