//! Where in a script something is, and what is wrong there.

use std::fmt;

/// A place in a script, counted from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u32,
    /// Column, in characters.
    pub column: u32,
}

/// Why a script cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The script's path, as given to the parser.
    pub path: String,
    /// The token at fault.
    pub place: Place,
    /// In words, without the place.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place;
        write!(formatter, "{}:{line}:{column}: {}", self.path, self.message)
    }
}

impl std::error::Error for ParseError {}
