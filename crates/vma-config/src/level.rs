//! Log levels: their order, the names they are printed with and the names they are read from.

use std::fmt;

/// How important a log line is; a smaller level is more important.
///
/// A line is written when its level is at or below the configured one, so `None` as the configured
/// level silences everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    /// Nothing is logged.
    None,
    /// The process cannot go on.
    Panic,
    /// An error in the library.
    Error,
    /// Something is wrong in the set-up; the program runs on.
    Warning,
    /// General information: the default.
    Info,
    /// General information that is usually not wanted, such as every parameter's value.
    Details,
    /// Every control operation of the library.
    Debug,
    /// Messages on the data path.
    Fine,
    /// Many messages on the data path.
    Finer,
    /// Everything.
    All,
}

impl LogLevel {
    /// Every level, the most important first.
    pub const ALL_LEVELS: [Self; 10] = [
        Self::None,
        Self::Panic,
        Self::Error,
        Self::Warning,
        Self::Info,
        Self::Details,
        Self::Debug,
        Self::Fine,
        Self::Finer,
        Self::All,
    ];

    /// The most detailed level at which this library logs anything. The data path holds no log
    /// statements, so `FINE` and above have nothing to show.
    pub const MAX: Self = Self::Debug;

    /// The level's name in capitals, as log lines and the banner print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Panic => "PANIC",
            Self::Error => "ERROR",
            Self::Warning => "WARNING",
            Self::Info => "INFO",
            Self::Details => "DETAILS",
            Self::Debug => "DEBUG",
            Self::Fine => "FINE",
            Self::Finer => "FINER",
            Self::All => "ALL",
        }
    }

    /// The names under which the level can be asked for, compared without regard to case.
    ///
    /// The digits are not positions in [`Self::ALL_LEVELS`]: `DETAILS` has no digit, and `4` has
    /// always meant `DEBUG`.
    pub const fn accepted_names(self) -> &'static [&'static str] {
        match self {
            Self::None => &["none"],
            Self::Panic => &["panic", "0"],
            Self::Error => &["error", "1"],
            Self::Warning => &["warn", "warning", "2"],
            Self::Info => &["info", "information", "3"],
            Self::Details => &["details"],
            Self::Debug => &["debug", "4"],
            Self::Fine => &["fine", "func", "5"],
            Self::Finer => &["finer", "func+", "funcall", "func_all", "func-all", "6"],
            Self::All => &["all"],
        }
    }

    /// Finds the level that has `text` among its [accepted names](Self::accepted_names).
    /// Blanks around the name are ignored.
    pub fn from_name(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL_LEVELS.into_iter().find(|level| {
            level
                .accepted_names()
                .iter()
                .any(|name| name.eq_ignore_ascii_case(text))
        })
    }

    /// The level's number in interfaces that carry levels as integers: -1 for `NONE`, 0 for `PANIC`
    /// up to 8 for `ALL`.
    pub const fn number(self) -> i32 {
        match self {
            Self::None => -1,
            Self::Panic => 0,
            Self::Error => 1,
            Self::Warning => 2,
            Self::Info => 3,
            Self::Details => 4,
            Self::Debug => 5,
            Self::Fine => 6,
            Self::Finer => 7,
            Self::All => 8,
        }
    }

    /// The inverse of [`Self::number`].
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL_LEVELS
            .into_iter()
            .find(|level| level.number() == number)
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_name_is_accepted() {
        let expected = [
            (LogLevel::None, "none NONE"),
            (LogLevel::Panic, "panic 0 Panic"),
            (LogLevel::Error, "error 1"),
            (LogLevel::Warning, "warn warning 2 WARN"),
            (LogLevel::Info, "info information 3"),
            (LogLevel::Details, "details"),
            (LogLevel::Debug, "debug 4 DEBUG"),
            (LogLevel::Fine, "fine func 5"),
            (
                LogLevel::Finer,
                "finer func+ funcall func_all func-all 6 FUNC_ALL",
            ),
            (LogLevel::All, "all"),
        ];
        for (level, names) in expected {
            for name in names.split(' ') {
                assert_eq!(LogLevel::from_name(name), Some(level), "{name}");
            }
        }
        for name in ["", "7", "-1", "verbose", "debug4"] {
            assert_eq!(LogLevel::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn numbers_follow_the_order_and_come_back() {
        for pair in LogLevel::ALL_LEVELS.windows(2) {
            assert!(pair[0] < pair[1]);
            assert_eq!(pair[0].number() + 1, pair[1].number());
        }
        for level in LogLevel::ALL_LEVELS {
            assert_eq!(LogLevel::from_number(level.number()), Some(level));
        }
        assert_eq!(LogLevel::from_number(9), None);
        assert_eq!(LogLevel::from_number(-2), None);
    }
}
