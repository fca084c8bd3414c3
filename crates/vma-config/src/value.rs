//! The value of one parameter.

use std::ffi::{OsStr, OsString};
use std::fmt;

use crate::level::LogLevel;
use crate::preset::Spec;

/// The value of one parameter. Which variant it is follows from the parameter's
/// [`Kind`](crate::Kind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Of a `Kind::Bool`.
    Bool(bool),
    /// Of a `Kind::Number` or a `Kind::Choice`.
    Number(i64),
    /// Of a `Kind::Word`: one of its words, spelled as in the table.
    Word(&'static str),
    /// Of a `Kind::Level`.
    Level(LogLevel),
    /// Of a `Kind::Spec`.
    Spec(Spec),
    /// Of a `Kind::Text`, `Kind::Path` or `Kind::CpuSet`: not necessarily UTF-8.
    Text(OsString),
}

impl Value {
    /// The value as one would write it into the environment, on one line.
    pub fn to_environment(&self) -> String {
        match self {
            Self::Bool(value) => u8::from(*value).to_string(),
            Self::Level(level) => level.name().to_ascii_lowercase(),
            Self::Spec(spec) => spec.name().to_owned(),
            Self::Number(_) | Self::Word(_) | Self::Text(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Value {
    /// Writes the value as the banner shows it, on one line: control characters are escaped, bytes
    /// that are not UTF-8 are replaced.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(true) => f.pad("Enabled"),
            Self::Bool(false) => f.pad("Disabled"),
            Self::Number(number) => fmt::Display::fmt(number, f),
            Self::Word(word) => f.pad(word),
            Self::Level(level) => f.pad(level.name()),
            Self::Spec(spec) => f.pad(spec.display_name()),
            Self::Text(text) => f.pad(&printable(text)),
        }
    }
}

/// Renders text that came from the user so that it cannot break a log line or drive a terminal:
/// control characters are escaped, bytes that are not UTF-8 are replaced.
pub(crate) fn printable(text: &OsStr) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.to_string_lossy().chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn values_from_the_user_stay_on_one_line() {
        let text = OsStr::from_bytes(b"a\nb\x1b[31m\xff");
        assert_eq!(printable(text), "a\\nb\\u{1b}[31m\u{fffd}");
        assert_eq!(
            Value::Text(text.into()).to_string(),
            "a\\nb\\u{1b}[31m\u{fffd}"
        );
    }

    #[test]
    fn values_are_padded_like_text_and_numbers() {
        assert_eq!(format!("{:<10}|", Value::Bool(true)), "Enabled   |");
        assert_eq!(format!("{:<6}|", Value::Number(-1)), "-1    |");
        assert_eq!(format!("{:<6}|", Value::Level(LogLevel::Info)), "INFO  |");
    }
}
