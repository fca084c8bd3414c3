//! The lines that the library logs when it starts.
//!
//! Scripts and people compare these lines with those of the original, so labels, columns and order
//! are the original's.

use std::ffi::OsStr;

use crate::config::{Config, Effective};
use crate::level::LogLevel;
use crate::params::{Choice, Form, Kind, ParameterId};
use crate::preset::Spec;
use crate::settings::Origin;
use crate::value::{Value, printable};

/// What the banner says about the build, the process and the machine. Fields that are `None` or
/// empty are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BannerFacts {
    /// The version, such as `0.1.0-1`.
    pub version: String,
    /// When the library was built, as `Mon DD YYYY HH:MM:SS`.
    pub build_date: String,
    /// Whether this is not a release.
    pub is_development_snapshot: bool,
    /// Whether the library was built for debugging.
    pub is_debug_build: bool,
    /// The commit it was built from.
    pub git: Option<String>,
    /// The arguments of the process, joined by blanks.
    pub command_line: String,
    /// The process id.
    pub pid: u32,
    /// The time, as ctime(3) writes it.
    pub current_time: Option<String>,
    /// The installed OFED release.
    pub ofed_version: Option<String>,
    /// What uname(2) says.
    pub system: Option<SystemFacts>,
}

/// What uname(2) says about the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemFacts {
    /// The kernel release.
    pub release: String,
    /// The hardware name.
    pub machine: String,
    /// The host name.
    pub node: String,
}

/// The banner of `config`: each line with its level, without prefix and newline, to be logged in
/// this order. Lines with a level beyond the configured one are included.
///
/// Lines about parameters have level INFO when the value is not the default, DETAILS when it is. Of
/// what a profile presets, only what works has level INFO; a line says how many of the settings in
/// force have no effect yet.
pub fn banner(config: &Config, facts: &BannerFacts) -> Vec<(LogLevel, String)> {
    let rule = (LogLevel::Info, "-".repeat(75));
    let mut lines = vec![rule.clone()];
    lines.extend(facts_lines(facts));
    lines.push(rule.clone());
    lines.extend(
        config
            .effective()
            .filter_map(|effective| parameter_line(config, &effective)),
    );
    lines.extend(no_effect_line(config));
    lines.push(rule);
    lines
}

fn facts_lines(facts: &BannerFacts) -> Vec<(LogLevel, String)> {
    let kind = if facts.is_development_snapshot {
        "Development Snapshot"
    } else {
        "Release"
    };
    let debug = if facts.is_debug_build {
        " -*- DEBUG -*-"
    } else {
        ""
    };
    let version = clean(&facts.version);
    let date = clean(&facts.build_date);
    let mut lines = vec![(
        LogLevel::Info,
        format!("VMA_VERSION: {version} {kind} built on {date}{debug}"),
    )];
    if let Some(git) = &facts.git {
        lines.push((LogLevel::Info, format!("Git: {}", clean(git))));
    }
    lines.push((
        LogLevel::Info,
        format!("Cmd Line: {}", clean(&facts.command_line)),
    ));
    if let Some(time) = &facts.current_time {
        lines.push((
            LogLevel::Debug,
            format!("Current Time: {}", clean(time.trim_end())),
        ));
    }
    lines.push((LogLevel::Debug, format!("Pid: {:5}", facts.pid)));
    if let Some(version) = &facts.ofed_version {
        lines.push((LogLevel::Info, format!("OFED Version: {}", clean(version))));
    }
    if let Some(system) = &facts.system {
        lines.push((
            LogLevel::Debug,
            format!("System: {}", clean(&system.release)),
        ));
        lines.push((
            LogLevel::Debug,
            format!("Architecture: {}", clean(&system.machine)),
        ));
        lines.push((LogLevel::Debug, format!("Node: {}", clean(&system.node))));
    }
    lines
}

/// How many settings are not at their defaults and change nothing yet, if there are any.
fn no_effect_line(config: &Config) -> Option<(LogLevel, String)> {
    let count = config
        .effective()
        .filter(|it| !it.is_default && it.parameter().lacks_effect())
        .count();
    let text = match count {
        0 => return None,
        1 => "1 of these settings has no effect yet; vma(7) says which".to_owned(),
        _ => format!("{count} of these settings have no effect yet; vma(7) says which"),
    };
    Some((LogLevel::Info, text))
}

/// The line of one parameter, or nothing if it is not printed.
fn parameter_line(config: &Config, effective: &Effective<'_>) -> Option<(LogLevel, String)> {
    let parameter = effective.parameter();
    let (label, name) = (parameter.label, parameter.name);
    let number = config.settings().number(effective.id);
    // A parameter that agrees with another one was asked for with that one, unless a profile has
    // set both.
    let is_preset = config.spec != Spec::None && effective.origin != Origin::Environment;
    let matters = parameter.works() || !is_preset;
    let level = if effective.is_default || !matters {
        LogLevel::Details
    } else {
        LogLevel::Info
    };
    let spec = config.spec;

    Some(match parameter.form {
        Form::Hidden => return None,
        Form::Plain => (level, plain_line(label, effective.value, name)),
        Form::Always => (LogLevel::Info, plain_line(label, effective.value, name)),
        Form::Number => (level, number_line(label, number, name)),
        Form::NumberAndText => (
            level,
            number_text_line(label, number, choice_text(parameter.kind, number), name),
        ),
        Form::ChoiceText => (
            level,
            text_line(label, choice_text(parameter.kind, number), name),
        ),
        Form::NumberWithText { zero, other } => {
            let text = if number == 0 { zero } else { other };
            let line = if text.is_empty() {
                number_line(label, number, name)
            } else {
                number_text_line(label, number, text, name)
            };
            (level, line)
        }
        Form::ZeroDisabled { label, always_info } if number == 0 => {
            let level = if always_info && matters {
                LogLevel::Info
            } else {
                level
            };
            (level, text_line(label, "Disabled", name))
        }
        Form::ZeroDisabled { .. } => (level, number_line(label, number, name)),
        Form::UnlessZero(other) => {
            let other = ParameterId::find(other)?;
            if config.settings().number(other) == 0 {
                return None;
            }
            (level, number_line(label, number, name))
        }
        Form::Spec if spec == Spec::None => return None,
        Form::Spec => (LogLevel::Info, text_line(label, spec.display_name(), name)),
        Form::SpecParameter if spec.has_parameters() => {
            (LogLevel::Info, number_line(label, number, name))
        }
        Form::SpecParameter => return None,
    })
}

fn plain_line(label: &str, value: &Value, name: &str) -> String {
    match value {
        Value::Number(number) => number_line(label, *number, name),
        value => text_line(label, &value.to_string(), name),
    }
}

fn text_line(label: &str, text: &str, name: &str) -> String {
    format!("{label:<30} {text:<26} [{name}]")
}

fn number_line(label: &str, number: i64, name: &str) -> String {
    format!("{label:<30} {number:<26} [{name}]")
}

fn number_text_line(label: &str, number: i64, text: &str, name: &str) -> String {
    format!("{label:<30} {number:<2}{text:<24} [{name}]")
}

fn choice_text(kind: Kind, number: i64) -> &'static str {
    let choices: &[Choice] = match kind {
        Kind::Choice { choices, .. } => choices,
        _ => &[],
    };
    choices
        .iter()
        .find(|choice| i64::from(choice.number) == number)
        .map_or("", |choice| choice.text)
}

/// Facts such as the command line are the user's text: they must stay on one line.
fn clean(text: &str) -> String {
    printable(OsStr::new(text))
}
