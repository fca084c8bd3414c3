//! bind(2), connect(2), and which socket gets a packet, on the kernel and with the library.

use std::path::Path;

use testkit::{Comparison, VARIANTS, or_skip};

fn compare(case: &str) {
    let comparison = or_skip!(Comparison::new());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/addresses.c");
    let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    comparison.assert_same(&program, &[case], &VARIANTS);
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => { $(#[test] fn $case() { compare(stringify!($case)); })* };
}

cases!(
    binding,
    connecting,
    bound_and_connected,
    connect_errors,
    any_address,
    shared_port,
    wildcard_and_exact,
    reuse_port,
);
