//! Sans-IO TCP: segments and time go in, segments and wake-ups come out.
//!
//! Pure computation: no sockets, no clock, no locks, no allocation per segment. Time is an argument ([`Instant`]), so
//! is every random number's seed.

#![forbid(unsafe_code)]
#![warn(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod seq;
mod time;

pub use seq::SeqNumber;
pub use time::Instant;
