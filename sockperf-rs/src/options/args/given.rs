//! The values that were given, as numbers, ports and lists.

use clap::ArgMatches;
use clap::parser::ValueSource;

use super::usage;
use crate::error::Error;
use crate::sys::affinity;

/// The options that were given. A key that the mode lacks counts as not given.
pub(super) struct Given<'a> {
    matches: &'a ArgMatches,
}

impl<'a> Given<'a> {
    pub(super) fn new(matches: &'a ArgMatches) -> Self {
        Self { matches }
    }

    /// Whether the option was given, with or without a value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.matches.value_source(key) == Some(ValueSource::CommandLine)
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.matches
            .try_get_one::<String>(key)
            .ok()
            .flatten()
            .map(String::as_str)
    }

    pub(super) fn owned(&self, key: &str) -> Option<String> {
        self.text(key).map(str::to_owned)
    }

    pub(super) fn switch(&self, key: &str) -> bool {
        self.matches
            .try_get_one::<bool>(key)
            .ok()
            .flatten()
            .copied()
            .unwrap_or(false)
    }

    /// A number between `min` and `max`, or an error with the text that `complaint` makes.
    pub(super) fn number<T>(
        &self,
        key: &str,
        (min, max): (T, T),
        complaint: impl FnOnce(&str) -> String,
    ) -> Result<Option<T>, Error>
    where
        T: TryFrom<i128> + PartialOrd,
    {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        integer_in(text, min, max)
            .map(Some)
            .ok_or_else(|| usage(complaint(text)))
    }

    pub(super) fn port(&self, key: &str, complaint: &str) -> Result<Option<u16>, Error> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(port) if digits => Ok(Some(port)),
            _ => Err(usage(format!("{complaint}: {text} (0 to 65535)"))),
        }
    }

    pub(super) fn cpu_list(&self, key: &str) -> Result<Option<Vec<usize>>, Error> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        affinity::parse_cpu_list(text)
            .map(Some)
            .ok_or_else(|| usage(format!("'--{key}' Invalid CPU list: {text} (like 0,2-4)")))
    }
}

/// A number in one of the C notations: decimal, `0x` hexadecimal, `0` octal.
pub(super) fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(hexadecimal) => (hexadecimal, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (lower.as_str(), 8),
        None => (lower.as_str(), 10),
    };
    // from_str_radix would take a second sign.
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let number = i128::from_str_radix(digits, radix).ok()?;
    Some(if negative { -number } else { number })
}

pub(super) fn integer_in<T>(text: &str, min: T, max: T) -> Option<T>
where
    T: TryFrom<i128> + PartialOrd,
{
    integer(text)
        .and_then(|number| T::try_from(number).ok())
        .filter(|n| (min..=max).contains(n))
}
