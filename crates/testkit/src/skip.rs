//! How a test says that this machine cannot run it.

use std::env;
use std::fmt;
use std::io::{self, Write};

/// Why a test cannot run on this machine, in words for the person who reads the test's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    reason: String,
}

impl Skip {
    /// A skip for `reason`, such as `"not root"`.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// The reason, without the word "skipped".
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Skip {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for Skip {}

/// Prints `skipped: <reason>`; the caller then returns from its test.
///
/// # Panics
///
/// If `VMA_TEST_NO_SKIP` is set (to anything but `0` or nothing), so that a machine which is known
/// to be able to run every test cannot pass by running none.
pub fn skip(reason: impl fmt::Display) {
    let strict =
        env::var_os("VMA_TEST_NO_SKIP").is_some_and(|value| !value.is_empty() && value != "0");
    assert!(
        !strict,
        "skipped although VMA_TEST_NO_SKIP is set: {reason}"
    );
    // In one piece, for tests run side by side.
    let line = format!("skipped: {reason}\n");
    // Written to the stream itself: the test harness swallows what passing tests print by macro.
    // A closed stderr is no reason to fail the test.
    drop(io::stderr().write_all(line.as_bytes()));
}

/// The value of a `Result<T, Skip>`, or `skipped: <reason>` and return from the test.
#[macro_export]
macro_rules! or_skip {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(reason) => {
                $crate::skip(reason);
                return;
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_reads_as_its_reason() {
        assert_eq!(Skip::new("not root").to_string(), "not root");
        assert_eq!(Skip::new("no ip(8)").reason(), "no ip(8)");
    }

    #[test]
    fn or_skip_returns_from_the_function_only_on_a_skip() {
        fn runs(result: Result<u8, Skip>, reached: &mut bool) {
            let value = or_skip!(result);
            *reached = value == 7;
        }
        let mut reached = false;
        runs(Ok(7), &mut reached);
        assert!(reached);
        if env::var_os("VMA_TEST_NO_SKIP").is_none() {
            reached = false;
            runs(Err(Skip::new("an example, nothing is wrong")), &mut reached);
            assert!(!reached);
        }
    }
}
