//! Where the text of a run goes, and whether it has colours.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// The text output of a run. Failures to write are ignored, so that a closed pipe does not end a
/// test.
pub struct Output {
    sink: Box<dyn Write + Send>,
    style: Style,
}

/// Colours, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to emit escape sequences.
    pub colour: bool,
}

impl Output {
    /// Writes to `sink`.
    pub fn new(sink: Box<dyn Write + Send>, style: Style) -> Self {
        Self { sink, style }
    }

    /// The standard output, or the standard error if the former is taken by the JSON document.
    pub fn for_terminal(stdout_is_taken: bool) -> Self {
        if stdout_is_taken {
            let style = Style::for_terminal(io::stderr().is_terminal());
            Self::new(Box::new(io::stderr()), style)
        } else {
            let style = Style::for_terminal(io::stdout().is_terminal());
            Self::new(Box::new(io::stdout()), style)
        }
    }

    /// Writes text as it is, at once.
    pub fn write(&mut self, text: &str) {
        let written = self
            .sink
            .write_all(text.as_bytes())
            .and_then(|()| self.sink.flush());
        drop(written);
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
    pub const PLAIN: Self = Self { colour: false };

    /// Colours on a terminal, unless the variable NO_COLOR is set to something (see no-color.org).
    pub fn for_terminal(is_terminal: bool) -> Self {
        let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colour: is_terminal && !refused,
        }
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
        let colour = Style { colour: true };
        assert_eq!(colour.highlight("x"), "\x1b[2;35mx\x1b[0m");
        assert_eq!(colour.alarm("x"), "\x1b[0;31mx\x1b[0m");
        assert_eq!(Style::PLAIN.highlight("x"), "x");
        assert_eq!(Style::for_terminal(false), Style::PLAIN);
    }
}
