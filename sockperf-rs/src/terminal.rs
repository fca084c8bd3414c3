//! Where the text of a run goes, and whether it has colours.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex};

use crate::options::Color;

/// The text output of a run; clones write to the same place. Failures to write are ignored, so that
/// a closed pipe does not end a test.
#[derive(Clone)]
pub struct Output {
    sink: Arc<Mutex<Box<dyn Write + Send>>>,
    style: Style,
}

/// How text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to emit escape sequences.
    pub colour: bool,
    /// Whether to print nothing that the original does not print.
    pub strict: bool,
}

impl Output {
    /// Writes to `sink`.
    pub fn new(sink: Box<dyn Write + Send>, style: Style) -> Self {
        Self {
            sink: Arc::new(Mutex::new(sink)),
            style,
        }
    }

    /// The standard output, or the standard error if the former is taken by the JSON document. With
    /// `strict`, nothing is printed that the original does not print.
    pub fn for_terminal(stdout_is_taken: bool, color: Color, strict: bool) -> Self {
        let (sink, is_terminal): (Box<dyn Write + Send>, bool) = if stdout_is_taken {
            (Box::new(io::stderr()), io::stderr().is_terminal())
        } else {
            (Box::new(io::stdout()), io::stdout().is_terminal())
        };
        let colour = match color {
            Color::Always => true,
            Color::Never => false,
            // The original does not ask who reads.
            Color::Auto => strict || Style::wants_colour(is_terminal),
        };
        Self::new(sink, Style { colour, strict })
    }

    /// Writes text as it is, at once.
    pub fn write(&mut self, text: &str) {
        // A poisoned lock belongs to a thread that panicked, which is reported elsewhere.
        if let Ok(mut sink) = self.sink.lock() {
            let written = sink.write_all(text.as_bytes()).and_then(|()| sink.flush());
            drop(written);
        }
    }

    /// Writes one line with the program's prefix.
    pub fn line(&mut self, text: impl fmt::Display) {
        self.write(&format!("sockperf: {text}\n"));
    }

    /// How this output wants its text.
    pub fn style(&self) -> Style {
        self.style
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Output")
            .field("style", &self.style)
            .finish_non_exhaustive()
    }
}

impl Style {
    /// No escape sequences.
    pub const PLAIN: Self = Self {
        colour: false,
        strict: false,
    };

    /// Colours on a terminal, unless the variable NO_COLOR is set to something (see no-color.org).
    fn wants_colour(is_terminal: bool) -> bool {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        is_terminal && !refused
    }

    /// Magenta, for results and notes.
    pub fn highlight(self, text: impl fmt::Display) -> String {
        self.wrap("\x1b[2;35m", text)
    }

    /// Red, for what should not have happened.
    pub fn alarm(self, text: impl fmt::Display) -> String {
        self.wrap("\x1b[0;31m", text)
    }

    fn wrap(self, start: &str, text: impl fmt::Display) -> String {
        if self.colour {
            format!("{start}{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_where_wanted() {
        let colour = Style {
            colour: true,
            strict: false,
        };
        assert_eq!(colour.highlight("x"), "\x1b[2;35mx\x1b[0m");
        assert_eq!(colour.alarm("x"), "\x1b[0;31mx\x1b[0m");
        assert_eq!(Style::PLAIN.highlight("x"), "x");
        assert!(!Style::wants_colour(false));
    }
}
