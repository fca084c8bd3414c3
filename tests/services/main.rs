//! Real programs with the library: their scripts, the services of distributions as their packages
//! ship them, and test suites of others' own.
#![allow(clippy::unwrap_used, reason = "tests")]

mod compatibility;
mod evidence;
mod own_suites;
mod shipped;
mod stage;
mod tcp_programs;
