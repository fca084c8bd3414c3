//! What can go wrong, and the exit status each kind of failure gives.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

/// A failure that ends the program.
///
/// The texts name what was wrong; `main` adds the `sockperf: ERROR: ` prefix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line cannot be used.
    #[error("{0}")]
    Usage(String),
    /// A socket, file or thread setting could not be set up.
    #[error("{what}: {source}")]
    Setup {
        /// What was being done, and to what.
        what: String,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// An echoed message differs from what was sent (`--data-integrity`).
    #[error("data integrity test failed: the reply to message {sequence} differs from the request")]
    Integrity {
        /// Sequence number of the message.
        sequence: u64,
    },
    /// The test ran but there is nothing to report.
    #[error("{0}")]
    NoResult(String),
    /// Sending or receiving failed during the test.
    #[error("{what}: {source}")]
    Transfer {
        /// The call and its peer.
        what: String,
        /// The answer of the operating system.
        source: io::Error,
    },
    /// A file that is needed is not there.
    #[error("{0}")]
    NoFile(String),
    /// A file has lines that cannot be used.
    #[error("{0}")]
    Input(String),
    /// The peer does not keep to the protocol.
    #[error("{0}")]
    Protocol(String),
    /// `-n` did not reach its number of packets.
    #[error("{0}")]
    Incomplete(String),
}

impl Error {
    /// Wraps an operating system error of the set-up phase.
    pub fn setup(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Setup {
            what: what.into(),
            source: source.into(),
        }
    }

    /// The process exit status: 1 usage and set-up, 2 integrity and bad files, 3 no result, 4
    /// missing files, 6 protocol, 7 transfer, 8 incomplete.
    ///
    /// All but 3 have the meaning they have in the original.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Setup { .. } => 1,
            Self::Integrity { .. } | Self::Input(_) => 2,
            Self::NoResult(_) => 3,
            Self::NoFile(_) => 4,
            Self::Protocol(_) => 6,
            Self::Transfer { .. } => 7,
            Self::Incomplete(_) => 8,
        }
    }
}

/// The error for a file that cannot be opened.
pub fn cannot_open(path: &Path, error: &io::Error) -> Error {
    Error::NoFile(format!("Can't open file: {} ({error})", path.display()))
}

/// Writes one line with the program's prefix to the standard error.
pub(crate) fn complain(text: impl Display) {
    // There is nowhere to report that the standard error is closed.
    writeln!(io::stderr().lock(), "sockperf: {text}").ok();
}
