//! What a log line looks like.

use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::level::LogLevel;

/// One line of the log. [`Display`](fmt::Display) writes the whole line with its prefix, colour and
/// newline; [`encode`](Self::encode) puts as much of it as fits into a buffer. Neither allocates.
#[derive(Clone, Copy, Debug)]
pub struct LogLine<'a> {
    /// The level of the message.
    pub level: LogLevel,
    /// `VMA_LOG_DETAILS`: 0 only the level, 1 and the thread id, 2 and the process id, 3 and the
    /// time.
    pub details: u8,
    /// The process id.
    pub pid: u32,
    /// The thread id.
    pub tid: u32,
    /// The time since the process started.
    pub elapsed: Duration,
    /// Whether to colour the line; meant for terminals.
    pub color: bool,
    /// The message, without a newline.
    pub message: &'a str,
}

impl LogLine<'_> {
    /// Writes the line into `buffer` and returns its length in bytes. A line that does not fit
    /// loses the end of its message, never the end of the colour or the newline, and is not cut
    /// inside a character.
    pub fn encode(&self, buffer: &mut [u8]) -> usize {
        let end = self.end();
        let mut cut = Cut {
            buffer,
            len: 0,
            reserved: end.len(),
        };
        // An error says only that something was cut.
        let _ = self.write_beginning(&mut cut);
        cut.reserved = 0;
        let _ = cut.write_str(end);
        cut.len
    }

    fn write_beginning(&self, f: &mut impl fmt::Write) -> fmt::Result {
        if self.color {
            f.write_str(color(self.level))?;
        }
        if self.details >= 3 {
            let elapsed_msec = self.elapsed.as_secs_f64() * 1000.0;
            write!(f, " Time: {elapsed_msec:9.3}")?;
        }
        if self.details >= 2 {
            write!(f, " Pid: {:5}", self.pid)?;
        }
        if self.details >= 1 {
            write!(f, " Tid: {:5}", self.tid)?;
        }
        write!(f, " VMA {}: {}", self.level, self.message)
    }

    const fn end(&self) -> &'static str {
        if self.color { "\x1b[0m\n" } else { "\n" }
    }
}

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_beginning(f)?;
        f.write_str(self.end())
    }
}

/// Text that ends where its buffer does.
struct Cut<'a> {
    buffer: &'a mut [u8],
    len: usize,
    /// Bytes at the end of the buffer that are not for this text.
    reserved: usize,
}

impl fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.buffer.len().saturating_sub(self.len + self.reserved);
        let mut fits = room.min(text.len());
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        self.buffer[self.len..self.len + fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

const fn color(level: LogLevel) -> &'static str {
    match level {
        LogLevel::None | LogLevel::Panic | LogLevel::Error => "\x1b[0;31m",
        LogLevel::Warning => "\x1b[2;35m",
        LogLevel::Info | LogLevel::Details | LogLevel::Debug => "\x1b[0m",
        LogLevel::Fine | LogLevel::Finer | LogLevel::All => "\x1b[2m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(details: u8) -> LogLine<'static> {
        LogLine {
            level: LogLevel::Info,
            details,
            pid: 2378,
            tid: 123_456,
            elapsed: Duration::from_micros(12_345),
            color: false,
            message: "hello",
        }
    }

    #[test]
    fn details_extend_the_prefix_on_the_left() {
        assert_eq!(line(0).to_string(), " VMA INFO: hello\n");
        assert_eq!(line(1).to_string(), " Tid: 123456 VMA INFO: hello\n");
        assert_eq!(
            line(2).to_string(),
            " Pid:  2378 Tid: 123456 VMA INFO: hello\n"
        );
        let timed = " Time:    12.345 Pid:  2378 Tid: 123456 VMA INFO: hello\n";
        assert_eq!(line(3).to_string(), timed);
        assert_eq!(line(255).to_string(), timed);
    }

    #[test]
    fn every_level_has_its_name_and_colour() {
        for (level, expected) in [
            (LogLevel::Panic, "\x1b[0;31m VMA PANIC: hello\x1b[0m\n"),
            (LogLevel::Error, "\x1b[0;31m VMA ERROR: hello\x1b[0m\n"),
            (LogLevel::Warning, "\x1b[2;35m VMA WARNING: hello\x1b[0m\n"),
            (LogLevel::Info, "\x1b[0m VMA INFO: hello\x1b[0m\n"),
            (LogLevel::Details, "\x1b[0m VMA DETAILS: hello\x1b[0m\n"),
            (LogLevel::Debug, "\x1b[0m VMA DEBUG: hello\x1b[0m\n"),
            (LogLevel::Fine, "\x1b[2m VMA FINE: hello\x1b[0m\n"),
            (LogLevel::Finer, "\x1b[2m VMA FINER: hello\x1b[0m\n"),
        ] {
            assert_eq!(
                LogLine {
                    level,
                    color: true,
                    ..line(0)
                }
                .to_string(),
                expected
            );
        }
    }

    #[test]
    fn a_line_that_fits_is_encoded_whole() {
        for color in [false, true] {
            let line = LogLine { color, ..line(3) };
            let text = line.to_string();
            let mut buffer = [0; 512];
            let len = line.encode(&mut buffer);
            assert_eq!(&buffer[..len], text.as_bytes());
            let mut exact = vec![0; text.len()];
            assert_eq!(line.encode(&mut exact), text.len());
            assert_eq!(exact, text.as_bytes());
        }
    }

    #[test]
    fn a_long_line_loses_the_end_of_its_message_only() {
        let message = "ä".repeat(300);
        for color in [false, true] {
            let line = LogLine {
                color,
                message: &message,
                ..line(0)
            };
            let whole = line.to_string();
            for size in 64..128 {
                let mut buffer = vec![0; size];
                let len = line.encode(&mut buffer);
                let text = std::str::from_utf8(&buffer[..len]).unwrap();
                let end = if color { "\x1b[0m\n" } else { "\n" };
                let kept = text.strip_suffix(end).unwrap();
                assert!(whole.starts_with(kept), "{text:?}");
                assert!(size - len <= 1, "as much as fits: {len} of {size}");
            }
        }
    }

    #[test]
    fn no_buffer_is_too_small() {
        for size in 0..64 {
            let line = LogLine {
                color: true,
                ..line(3)
            };
            assert!(line.encode(&mut vec![0; size]) <= size);
        }
    }
}
