//! What a log line looks like.

use std::fmt;
use std::time::Duration;

use crate::level::LogLevel;

/// One line of the log. [`Display`](fmt::Display) writes the whole line with its prefix, colour and
/// newline, without allocating, so the library can format it into a buffer of its own.
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

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        write!(f, " VMA {}: {}", self.level, self.message)?;
        if self.color {
            f.write_str(COLOR_END)?;
        }
        f.write_str("\n")
    }
}

const COLOR_END: &str = "\x1b[0m";

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
}
