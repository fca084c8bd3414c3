//! Several threads on one socket, on the kernel and with the library.

use std::path::Path;

use testkit::{Comparison, Variant, or_skip};

/// The thread modes that allow several threads; the latency profile's own allows one.
const VARIANTS: [Variant; 5] = [
    ("default settings", &[]),
    ("mutexes", &[("VMA_THREAD_MODE", "2")]),
    ("more threads than cores", &[("VMA_THREAD_MODE", "3")]),
    (
        "VMA_SPEC=latency",
        &[("VMA_SPEC", "latency"), ("VMA_THREAD_MODE", "1")],
    ),
    (
        "sleeping at once",
        &[("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")],
    ),
];

fn compare(case: &str) {
    let comparison = or_skip!(Comparison::new());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/threads.c");
    let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    comparison.assert_same(&program, &[case], &VARIANTS);
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => { $(#[test] fn $case() { compare(stringify!($case)); })* };
}

cases!(
    unbound,
    late_poll,
    cancelled,
    several_receivers,
    sleeper_and_drainer,
    one_shot_pool,
    destructor,
    shut_down,
);
