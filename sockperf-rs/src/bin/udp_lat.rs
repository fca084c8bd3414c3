//! The program; see the module of the same name.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    sockperf_rs::udp_lat::run(env::args_os().skip(1))
}
