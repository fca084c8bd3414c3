//! Sockets at the very beginning and end of a process, on the kernel and with the library.

use std::path::Path;

use testkit::{Comparison, VARIANTS, or_skip};

fn compare(case: &str) {
    let comparison = or_skip!(Comparison::new());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/early.c");
    let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    comparison.assert_same(&program, &[case], VARIANTS);
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => { $(#[test] fn $case() { compare(stringify!($case)); })* };
}

cases!(early, late);
