use std::error::Error;
use std::fmt;
use std::io;

/// A bpf(2) call that the kernel refused.
#[derive(Debug)]
pub struct BpfError {
    attempt: &'static str,
    cause: io::Error,
    verifier_log: String,
}

impl BpfError {
    /// `attempt` completes the sentence "cannot ...".
    pub(super) fn new(attempt: &'static str, cause: io::Error) -> Self {
        Self {
            attempt,
            cause,
            verifier_log: String::new(),
        }
    }

    pub(super) fn with_verifier_log(self, verifier_log: String) -> Self {
        Self {
            verifier_log,
            ..self
        }
    }

    /// The system's error number, where the system reported the error.
    pub fn errno(&self) -> Option<i32> {
        self.cause.raw_os_error()
    }

    /// What the kernel's verifier had to say about a rejected program; empty for other errors.
    pub fn verifier_log(&self) -> &str {
        &self.verifier_log
    }
}

impl fmt::Display for BpfError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot {}: {}", self.attempt, self.cause)?;
        if !self.verifier_log.is_empty() {
            write!(
                formatter,
                "; the verifier says: {}",
                self.verifier_log.trim_end()
            )?;
        }
        Ok(())
    }
}

impl Error for BpfError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

impl From<BpfError> for io::Error {
    fn from(error: BpfError) -> Self {
        Self::new(error.cause.kind(), error)
    }
}
