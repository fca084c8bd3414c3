//! The program; see the library of the same name.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    sockperf_rs::run(env::args_os().skip(1))
}
