//! The value of every parameter while an environment is being read.

use crate::params::{PARAMETERS, ParameterId};
use crate::preset::Spec;
use crate::value::Value;

/// What gave a parameter its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing: it is the default.
    Default,
    /// The profile of `VMA_SPEC`, or `VMA_SOCKETXTREME`.
    Preset,
    /// A variable in the environment.
    Environment,
    /// Another parameter, with which it must agree.
    Adjusted,
}

impl Origin {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Preset => "preset",
            Self::Environment => "environment",
            Self::Adjusted => "adjusted",
        }
    }
}

/// The value of every parameter and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// In the order of [`PARAMETERS`].
    entries: Vec<(Value, Origin)>,
}

impl Settings {
    pub(crate) fn defaults() -> Self {
        let entries = PARAMETERS
            .iter()
            .map(|parameter| (parameter.default_value(), Origin::Default))
            .collect();
        Self { entries }
    }

    pub(crate) fn set(&mut self, id: ParameterId, value: Value, origin: Origin) {
        debug_assert!(
            id.parameter().allows(&value),
            "{}={value}",
            id.parameter().name
        );
        self.entries[id.index()] = (value, origin);
    }

    pub(crate) fn value(&self, id: ParameterId) -> &Value {
        &self.entries[id.index()].0
    }

    pub(crate) fn origin(&self, id: ParameterId) -> Origin {
        self.entries[id.index()].1
    }

    /// Whether the value came from a variable in the environment.
    pub(crate) fn is_from_environment(&self, id: ParameterId) -> bool {
        self.origin(id) == Origin::Environment
    }

    /// The value of a number, a choice or, as 0 or 1, a boolean; 0 for other types.
    pub(crate) fn number(&self, id: ParameterId) -> i64 {
        match *self.value(id) {
            Value::Number(number) => number,
            Value::Bool(value) => value.into(),
            _ => 0,
        }
    }

    /// Whether a boolean is on.
    pub(crate) fn is_on(&self, id: ParameterId) -> bool {
        *self.value(id) == Value::Bool(true)
    }

    /// The profile.
    pub(crate) fn spec(&self) -> Spec {
        match *self.value(const { ParameterId::of("VMA_SPEC") }) {
            Value::Spec(spec) => spec,
            _ => Spec::None,
        }
    }
}
