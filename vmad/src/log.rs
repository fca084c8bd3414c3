//! Messages with VMA's tags: to the console, the journal, or syslog.

use std::env;
use std::fmt::{self, Display};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;

/// From the most important to the least, as `--verbose` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Fatal = 1,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn tag(self) -> &'static str {
        match self {
            Self::Fatal => "[FATAL ]",
            Self::Error => "[ERROR ]",
            Self::Warn => "[WARN  ]",
            Self::Info => "[INFO  ]",
            Self::Debug => "[DEBUG ]",
            Self::Trace => "[TRACE ]",
        }
    }

    /// The priority of syslog(3).
    fn priority(self) -> u8 {
        match self {
            Self::Fatal => 1,
            Self::Error => 3,
            Self::Warn => 4,
            Self::Info => 5,
            Self::Debug | Self::Trace => 6,
        }
    }
}

#[derive(Debug)]
enum Sink {
    Console,
    /// Standard error, with the priority before each line (sd-daemon(3)).
    Journal,
    Syslog(UnixDatagram),
}

#[derive(Debug)]
pub(crate) struct Log {
    verbose: u8,
    sink: Sink,
}

/// LOG_LOCAL5
const FACILITY: u8 = 21 << 3;

impl Log {
    pub(crate) fn new(verbose: u8, console: bool) -> Self {
        let sink = if console {
            Sink::Console
        } else if env::var_os("JOURNAL_STREAM").is_some() {
            Sink::Journal
        } else {
            let syslog = UnixDatagram::unbound()
                .and_then(|socket| socket.connect("/dev/log").map(|()| socket))
                .and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
            syslog.map_or(Sink::Console, Sink::Syslog)
        };
        Self { verbose, sink }
    }

    pub(crate) fn fatal(&self, text: impl Display) {
        self.write(Level::Fatal, &text);
    }

    pub(crate) fn error(&self, text: impl Display) {
        self.write(Level::Error, &text);
    }

    pub(crate) fn warn(&self, text: impl Display) {
        self.write(Level::Warn, &text);
    }

    pub(crate) fn info(&self, text: impl Display) {
        self.write(Level::Info, &text);
    }

    pub(crate) fn debug(&self, text: impl Display) {
        self.write(Level::Debug, &text);
    }

    pub(crate) fn trace(&self, text: impl Display) {
        self.write(Level::Trace, &text);
    }

    /// There is nowhere to report that a message cannot be written.
    fn write(&self, level: Level, text: &dyn Display) {
        if level as u8 > self.verbose {
            return;
        }
        let line = Line { level, text };
        let _ = match &self.sink {
            Sink::Console => writeln!(io::stdout().lock(), "{line}"),
            Sink::Journal => writeln!(io::stderr().lock(), "<{}>{line}", level.priority()),
            Sink::Syslog(socket) => {
                let priority = FACILITY | level.priority();
                let message = format!("<{priority}>vmad[{}]: {line}", std::process::id());
                socket.send(message.as_bytes()).map(drop)
            }
        };
    }
}

struct Line<'a> {
    level: Level,
    text: &'a dyn Display,
}

impl Display for Line<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.level.tag(), self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_tags_of_vma() {
        let line = Line {
            level: Level::Warn,
            text: &"something",
        };
        assert_eq!(line.to_string(), "[WARN  ] something");
        assert!(Level::Fatal < Level::Trace);
    }
}
