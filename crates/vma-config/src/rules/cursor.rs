//! A place in a line. Words depend on what may stand there, so the parser asks for the kind it
//! wants.

use std::ffi::OsStr;
use std::net::Ipv6Addr;

use crate::value::printable;

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a str,
    /// Of the first character of `rest`, from 1.
    column: u32,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let mut cursor = Self {
            rest: line,
            column: 1,
        };
        cursor.skip_blanks();
        cursor
    }

    pub(super) fn column(&self) -> u32 {
        self.column
    }

    /// Whether only a comment follows, or nothing.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty() || self.rest.starts_with('#')
    }

    /// Everything up to the next blank: names of programs and files.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        if self.is_at_end() {
            return None;
        }
        self.take(|character| !is_blank(character))
    }

    /// A keyword, or `*`.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        if self.symbol('*') {
            return Some("*");
        }
        self.take(|character| matches!(character, 'a'..='z' | '_' | '-'))
    }

    /// A decimal number without leading zeros, as text.
    pub(super) fn digits(&mut self) -> Option<&'a str> {
        let before = *self;
        let digits = self.take(|character| character.is_ascii_digit())?;
        if digits.len() > 1 && digits.starts_with('0') {
            *self = before;
            return None;
        }
        Some(digits)
    }

    /// An address of IPv6. A mapped one of IPv4 is none: rules have that as it is.
    pub(super) fn address_v6(&mut self) -> Option<Ipv6Addr> {
        let before = *self;
        let text = self.take(|it| it.is_ascii_hexdigit() || matches!(it, ':' | '.'));
        let address = text
            .and_then(|text| text.parse().ok())
            .filter(|address: &Ipv6Addr| address.to_ipv4_mapped().is_none());
        if address.is_none() {
            *self = before;
        }
        address
    }

    /// Goes past `symbol` if it stands here.
    pub(super) fn symbol(&mut self, symbol: char) -> bool {
        let Some(rest) = self.rest.strip_prefix(symbol) else {
            return false;
        };
        self.rest = rest;
        self.column += 1;
        self.skip_blanks();
        true
    }

    /// What stands here, for a message.
    pub(super) fn found(&self) -> String {
        const LENGTH_MAX: usize = 32;
        if self.rest.is_empty() {
            return "the end of the line".to_owned();
        }
        if self.is_at_end() {
            return "a comment".to_owned();
        }
        let mut first = true;
        let mut inside = |character: &char| {
            let separates = is_blank(*character) || matches!(character, ':' | '/' | '#');
            std::mem::take(&mut first) || !separates
        };
        let mut text: String = self
            .rest
            .chars()
            .take_while(|character| inside(character))
            .take(LENGTH_MAX + 1)
            .collect();
        if text.chars().count() > LENGTH_MAX {
            text.pop();
            text.push_str("...");
        }
        format!("\"{}\"", printable(OsStr::new(&text)))
    }

    fn take(&mut self, inside: impl Fn(char) -> bool) -> Option<&'a str> {
        let end = self
            .rest
            .find(|character| !inside(character))
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.advance(text, rest);
        self.skip_blanks();
        (!text.is_empty()).then_some(text)
    }

    fn skip_blanks(&mut self) {
        let rest = self.rest.trim_start_matches(is_blank);
        let (blanks, rest) = self.rest.split_at(self.rest.len() - rest.len());
        self.advance(blanks, rest);
    }

    fn advance(&mut self, text: &str, rest: &'a str) {
        let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        self.column = self.column.saturating_add(characters);
        self.rest = rest;
    }
}

/// Files may come from systems that end lines with a carriage return, too.
fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r')
}
