//! Messages to the person at the terminal. Standard output carries reports only.

use std::fmt;
use std::io::{self, Write};

/// Prints one line on standard error. A closed standard error is no reason to stop.
pub(crate) fn tell(text: impl fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "vmastat: {text}");
}
