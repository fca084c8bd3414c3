//! The file of `--data-file`: a line each message, with the seconds since the start, a comma and
//! the size.

use std::fs;
use std::path::Path;

use crate::error::{Error, cannot_open};
use crate::message::HEADER_LEN;

/// The messages of a playback, in the order of sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeLine(Vec<Message>);

/// A message of a time line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Since the start.
    pub after_nsec: u64,
    /// Size in bytes, header included.
    pub len: usize,
}

const LEN_MAX: usize = 64_000;
/// A hundred years.
const SECONDS_MAX: f64 = 3.2e9;

impl TimeLine {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read(path).map_err(|error| cannot_open(path, &error))?;
        Self::parse(&String::from_utf8_lossy(&text))
    }

    /// Reads a file's text. Times must grow from line to line, sizes be between 14 and 64000.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut messages: Vec<Message> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let message = parse_line(line)
                .map_err(|problem| Error::Input(format!("{problem} at line #{number}")))?;
            let last_nsec = messages.last().map_or(0, |last| last.after_nsec);
            if message.after_nsec <= last_nsec {
                return Err(Error::Input(format!(
                    "out-of-order timestamp at line #{number}"
                )));
            }
            messages.push(message);
        }
        if messages.is_empty() {
            return Err(Error::Input("the time line has no messages".to_owned()));
        }
        Ok(Self(messages))
    }

    /// All messages.
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    /// The size of the longest.
    pub fn longest_len(&self) -> usize {
        self.0.iter().map(|message| message.len).max().unwrap_or(0)
    }
}

fn parse_line(line: &str) -> Result<Message, &'static str> {
    let (time, len) = line.split_once(',').ok_or("can't read time & size,")?;
    let seconds: f64 = time.trim().parse().map_err(|_| "can't read time & size,")?;
    let len: usize = len.trim().parse().map_err(|_| "can't read time & size,")?;
    let is_legal = seconds > 0.0 && seconds < SECONDS_MAX && (HEADER_LEN..=LEN_MAX).contains(&len);
    if !is_legal {
        return Err("illegal time or size");
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive and below 3.2e18"
    )]
    let after_nsec = (seconds * 1e9).round() as u64;
    Ok(Message { after_nsec, len })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read() {
        let line = TimeLine::parse("# time, size\n\n0.001, 14\n 0.0035,1000 \n1e0, 64000\n");
        let line = line.unwrap();
        let message = |after_nsec, len| Message { after_nsec, len };
        assert_eq!(
            line.messages(),
            [
                message(1_000_000, 14),
                message(3_500_000, 1000),
                message(1_000_000_000, 64_000)
            ]
        );
        assert_eq!(line.longest_len(), 64_000);
    }

    #[test]
    fn bad_lines_are_named() {
        for (text, problem) in [
            ("0.1 14", "can't read time & size, at line #1"),
            ("x, 14", "can't read time & size, at line #1"),
            ("0.1, 14\n0.2, y", "can't read time & size, at line #2"),
            ("0.1, 13", "illegal time or size at line #1"),
            ("0.1, 64001", "illegal time or size at line #1"),
            ("0, 14", "illegal time or size at line #1"),
            ("-1, 14", "illegal time or size at line #1"),
            ("nan, 14", "illegal time or size at line #1"),
            ("inf, 14", "illegal time or size at line #1"),
            ("0.1, 14\n\n0.1, 14", "out-of-order timestamp at line #3"),
            ("#", "no messages"),
        ] {
            let error = TimeLine::parse(text).unwrap_err();
            assert!(error.to_string().contains(problem), "{text:?}: {error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
