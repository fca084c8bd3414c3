//! A TCP connection in any state against a peer that sends anything, while its application does
//! anything.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tcp/tests/support/hostile.rs"]
#[allow(dead_code, reason = "what the test of the same asks beside it")]
mod hostile;

fuzz_target!(|bytes: &[u8]| hostile::run(bytes));
