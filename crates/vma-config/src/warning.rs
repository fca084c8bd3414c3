//! What the parser has to say about an environment.

use std::fmt;

use crate::level::LogLevel;

/// One remark about a variable, to be logged by the library at its [`severity`](Self::severity).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What kind of remark this is.
    pub kind: WarningKind,
    /// `LogLevel::Warning`, or `LogLevel::Debug` for what most users need not see.
    pub severity: LogLevel,
    /// The variable the remark is about.
    pub variable: String,
    /// The whole remark on one line, the variable's name included.
    pub message: String,
}

/// What a [`Warning`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningKind {
    /// The value cannot be read as the parameter's type.
    Malformed,
    /// The value can be read but is not allowed.
    OutOfRange,
    /// The value was changed to agree with another parameter or with what this build can do.
    Adjusted,
    /// There is no parameter of this name.
    Unknown,
    /// The name belonged to an older release.
    Deprecated,
    /// The parameter is accepted but changes nothing yet.
    NoEffect,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
