//! What a hook costs a call on a descriptor that is not ours: `cargo bench -p libvma --bench
//! hooks`.
//!
//! The library is preloaded in front of another that stands for the C library and whose calls
//! return at once. A program calls both in turn (`hooks/program.c`); what is left of the difference
//! is the hook. Prints one line of JSON a call.

#![allow(clippy::print_stdout, reason = "the result goes to standard output")]

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

fn main() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/hooks");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let compile = |name: &str, options: &[&str]| {
        testkit::compile_c_with(&sources.join(name), directory, options)
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let null_calls = compile("null_calls.c", &["-O2", "-shared", "-fPIC"]);
    let program = compile("program.c", &["-O2"]);
    let library = testkit::libvma_path().unwrap_or_else(|error| panic!("{error}"));
    let mut preload = OsString::from(&library);
    preload.push(" ");
    preload.push(&null_calls);
    let mut command = Command::new(&program);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"VMA_") {
            command.env_remove(name);
        }
    }
    let ran = command
        .arg(&null_calls)
        .env("LD_PRELOAD", preload)
        .env("VMA_TRACELEVEL", "none")
        .env("VMA_STATS_SHMEM_DIR", directory)
        .status()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    assert!(ran.success(), "{}: {ran}", program.display());
}
