//! Connections between the engine and Linux: the engine at one end of a relay, the kernel of a
//! namespace, behind a TUN device, at the other.
//!
//! Time is real and the machine may be busy: tests assert on octets, states and counts, and on
//! times only where they must not be shorter.

mod closing;
mod fairness;
mod goodput;
mod host;
mod lab;
mod options;
mod pattern;
mod refusing;
mod repair;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
mod waiting;
