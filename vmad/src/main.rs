//! The program; see the library of the same name.

#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

fn main() -> ExitCode {
    vmad::run(env::args_os())
}
