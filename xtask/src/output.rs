//! Where words go.

use std::fmt;
use std::io::{self, Write};

use crate::failure::Failure;

/// A line of progress or an error, to standard error.
pub(crate) fn say(line: impl fmt::Display) {
    // One write, so that lines of other processes do not cut it. Nobody is left to hear of a
    // failure.
    drop(io::stderr().write_all(format!("{line}\n").as_bytes()));
}

/// A result, to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}
