//! Why a command ended early.

use std::fmt;
use std::io;

use crate::arguments::USAGE;

#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is wrong in this way.
    Usage(String),
    /// Ctrl-C, or another request to end.
    Interrupted,
    /// What happened and what helps.
    Reason(String),
}

impl Failure {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self::Reason(reason.into())
    }

    /// What the shell sees: 2 for a wrong command line, 130 as for a program that SIGINT ended,
    /// else 1.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted => 130,
            Self::Reason(_) => 1,
        }
    }

    /// The same failure, introduced by what was being done.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        match self {
            Self::Reason(reason) => Self::Reason(format!("{what}: {reason}")),
            other => other,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(reason) => write!(formatter, "{reason}\n\n{USAGE}"),
            Self::Interrupted => formatter.write_str("interrupted; everything was cleaned up"),
            Self::Reason(reason) => formatter.write_str(reason),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Reason(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_get_an_introduction() {
        let failure = Failure::new("no carrier").during("round 2");
        assert_eq!(failure.to_string(), "round 2: no carrier");
        assert_eq!(failure.exit_code(), 1);
        let failure = Failure::Interrupted.during("round 2");
        assert!(matches!(failure, Failure::Interrupted));
        assert_eq!(failure.exit_code(), 130);
    }
}
