//! Many threads on one engine: nothing is lost, nothing hangs, nothing is left behind.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "descriptors, ports and lengths are small"
)]

#[path = "../support/mod.rs"]
mod support;

mod churn;
mod lock;
mod sharing;
mod wake_up;
