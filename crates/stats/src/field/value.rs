//! The value of any field.

use std::fmt;
use std::net::SocketAddr;

use crate::field::histogram::Distribution;
use crate::field::reasons::ReasonCounts;

/// What a field of a snapshot holds, for those who treat all fields alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Flag(bool),
    Text(String),
    Address(Option<SocketAddr>),
    Reasons(ReasonCounts),
    Times(Distribution),
}

impl Value {
    /// As a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Unsigned(value) => Some(*value as f64),
            Self::Signed(value) => Some(*value as f64),
            Self::Flag(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        }
    }

    /// Whether it is what a fresh entry has.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Unsigned(value) => *value == 0,
            Self::Signed(value) => *value == -1,
            Self::Flag(value) => !value,
            Self::Text(text) => text.is_empty(),
            Self::Address(address) => address.is_none(),
            Self::Reasons(counts) => counts.total() == 0,
            Self::Times(times) => times.count() == 0,
        }
    }
}

/// On one line. Counts by reason are `code=count`, times the percentiles.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(value) => value.fmt(formatter),
            Self::Signed(value) => value.fmt(formatter),
            Self::Flag(value) => value.fmt(formatter),
            Self::Text(text) => text.fmt(formatter),
            Self::Address(Some(address)) => address.fmt(formatter),
            Self::Address(None) => Ok(()),
            Self::Reasons(counts) => {
                let counts = counts.iter().map(|(code, count)| format!("{code}={count}"));
                counts.collect::<Vec<_>>().join(" ").fmt(formatter)
            }
            Self::Times(times) => times.fmt(formatter),
        }
    }
}
