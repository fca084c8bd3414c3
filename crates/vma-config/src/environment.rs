//! Turns the variables of an environment into settings and remarks.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::adjust::adjust;
use crate::deprecated::{Deprecated, Forward};
use crate::level::LogLevel;
use crate::params::{Kind, ParameterId};
use crate::parse::{Reading, read, read_bool};
use crate::preset::{Preset, SOCKETXTREME_PRESETS, Spec};
use crate::settings::{Origin, Settings};
use crate::suggest::nearest_name;
use crate::value::{Value, printable};
use crate::warning::{Warning, WarningKind};

/// Reads an environment as [`Config::parse`](crate::Config::parse) describes.
pub(crate) fn parse_environment(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    pid: u32,
) -> (Settings, Vec<Warning>) {
    let mut parser = Parser {
        settings: Settings::defaults(),
        warnings: Vec::new(),
        pid,
    };
    let variables = parser.sort(environment);
    parser.apply_presets(&variables);
    parser.apply_deprecated(&variables);
    for (id, text) in &variables.known {
        parser.apply(*id, id.parameter().name, text);
    }
    adjust(&mut parser.settings, &mut parser.warnings);
    parser.warn_of_no_effect();
    (parser.settings, parser.warnings)
}

struct Parser {
    settings: Settings,
    warnings: Vec<Warning>,
    pid: u32,
}

/// The variables of an environment that concern the library.
#[derive(Default)]
struct Variables {
    /// Of parameters, in table order.
    known: Vec<(ParameterId, OsString)>,
    /// Of older releases, in the order of the environment.
    deprecated: Vec<(&'static Deprecated, OsString)>,
}

impl Parser {
    /// Picks the variables that concern the library and warns of those that nobody knows.
    fn sort(&mut self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> Variables {
        let mut variables = Variables::default();
        for (name, text) in environment {
            if !name.as_bytes().starts_with(b"VMA_") {
                continue;
            }
            let known = name.to_str().and_then(ParameterId::find);
            let deprecated = name.to_str().and_then(Deprecated::find);
            if let Some(id) = known {
                if variables.known.iter().all(|(seen, _)| *seen != id) {
                    variables.known.push((id, text));
                }
            } else if let Some(deprecated) = deprecated {
                if variables
                    .deprecated
                    .iter()
                    .all(|(seen, _)| seen.name != deprecated.name)
                {
                    variables.deprecated.push((deprecated, text));
                }
            } else {
                self.warn_of_unknown(&name);
            }
        }
        variables.known.sort_by_key(|(id, _)| *id);
        variables
    }

    fn warn_of_unknown(&mut self, name: &OsStr) {
        let variable = shortened(printable(name));
        let advice = match nearest_name(&variable) {
            Some(nearest) => format!("; did you mean {nearest}?"),
            None => String::new(),
        };
        let message = format!("{variable} is not a parameter and is ignored{advice}");
        self.warn(WarningKind::Unknown, LogLevel::Warning, variable, message);
    }

    /// Applies what `VMA_SOCKETXTREME` and then `VMA_SPEC` preset. A bad value is reported when the
    /// variable itself is applied.
    fn apply_presets(&mut self, variables: &Variables) {
        let value_of = |name| {
            let (id, text) = variables
                .known
                .iter()
                .find(|(id, _)| id.parameter().name == name)?;
            match read(id.parameter(), text, self.pid) {
                Reading::Valid(value) | Reading::Leading(value) => Some(value),
                Reading::OutOfRange | Reading::Malformed => None,
            }
        };
        let mut presets: Vec<&Preset> = Vec::new();
        if value_of("VMA_SOCKETXTREME") == Some(Value::Bool(true)) {
            presets.extend(SOCKETXTREME_PRESETS);
        }
        if let Some(Value::Spec(spec)) = value_of("VMA_SPEC") {
            presets.extend(spec.presets());
        }
        for preset in presets {
            self.settings
                .set(preset.parameter, preset.value(), Origin::Preset);
        }
    }

    /// Applies the variables of older releases where the parameter's own variable is not set.
    fn apply_deprecated(&mut self, variables: &Variables) {
        let is_set = |id| variables.known.iter().any(|(known, _)| *known == id);
        for (deprecated, text) in &variables.deprecated {
            let Deprecated {
                name,
                advice,
                forward,
            } = **deprecated;
            self.warn(
                WarningKind::Deprecated,
                LogLevel::Warning,
                name.to_owned(),
                format!("{name} belongs to an older release: {advice}"),
            );
            match forward {
                Forward::Nowhere => {}
                Forward::Value(id) if is_set(id) => {}
                Forward::Value(id) => self.apply(id, name, text),
                Forward::Switch(targets) => {
                    if !read_bool(text).is_on() {
                        continue;
                    }
                    for (id, number) in targets.iter().filter(|(id, _)| !is_set(*id)) {
                        self.settings
                            .set(*id, Value::Number(*number), Origin::Environment);
                    }
                }
            }
        }
    }

    /// Gives `id` the value that the variable `name` holds.
    fn apply(&mut self, id: ParameterId, name: &str, text: &OsStr) {
        let parameter = id.parameter();
        let (kind, problem, value) = match read(parameter, text, self.pid) {
            Reading::Valid(value) => {
                self.settings.set(id, value, Origin::Environment);
                return;
            }
            Reading::Leading(value) => (WarningKind::Malformed, "is not a number", Some(value)),
            Reading::Malformed => (WarningKind::Malformed, type_problem(parameter.kind), None),
            Reading::OutOfRange => (WarningKind::OutOfRange, "is out of range", None),
        };
        if let Some(value) = value {
            self.settings.set(id, value, Origin::Environment);
        }
        let message = format!(
            "{name}={} {problem}; allowed: {}; using {}",
            shortened(printable(text)),
            parameter.range(),
            self.settings.value(id).to_environment(),
        );
        self.warn(kind, LogLevel::Warning, name.to_owned(), message);
    }

    /// Says which variables of the environment change nothing yet.
    fn warn_of_no_effect(&mut self) {
        let mut preset_names = Vec::new();
        for id in ParameterId::all() {
            let parameter = id.parameter();
            let Some((remark, reason)) = parameter.status.remark() else {
                continue;
            };
            let value = self.settings.value(id);
            if *value == parameter.default_value() {
                continue;
            }
            match self.settings.origin(id) {
                Origin::Environment => {
                    let name = parameter.name.to_owned();
                    let value = shortened(value.to_environment());
                    let message = format!("{name}={value} accepted, {remark}: {reason}");
                    self.warn(WarningKind::NoEffect, LogLevel::Debug, name, message);
                }
                Origin::Preset if parameter.lacks_effect() => preset_names.push(parameter.name),
                Origin::Preset | Origin::Default | Origin::Adjusted => {}
            }
        }
        let spec = self.settings.spec();
        if spec != Spec::None && !preset_names.is_empty() {
            let message = format!(
                "VMA_SPEC={} presets parameters that have no effect yet: {}",
                spec.name(),
                preset_names.join(", ")
            );
            self.warn(
                WarningKind::NoEffect,
                LogLevel::Debug,
                "VMA_SPEC".to_owned(),
                message,
            );
        }
    }

    fn warn(&mut self, kind: WarningKind, severity: LogLevel, variable: String, message: String) {
        self.warnings.push(Warning {
            kind,
            severity,
            variable,
            message,
        });
    }
}

fn type_problem(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool { .. } => "is neither 0 nor 1",
        Kind::Number { .. } | Kind::Choice { .. } => "is not a number",
        Kind::Level { .. } => "is not a log level",
        Kind::Spec => "is not a profile",
        Kind::CpuSet { .. } => "is not a set of processors",
        Kind::Word { .. } | Kind::Text { .. } | Kind::Path { .. } => "is not one of the words",
    }
}

/// Cuts text that would make a log line unreadably long.
fn shortened(text: String) -> String {
    const LENGTH_MAX: usize = 128;
    match text.char_indices().nth(LENGTH_MAX) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
