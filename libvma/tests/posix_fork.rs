//! Sockets that a process and its children have in common, on the kernel and with the library.

use std::path::Path;

use testkit::{Comparison, Variant, or_skip};

/// Those of the programs that have several threads break the promise of the latency profile's own thread mode.
const VARIANTS: [Variant; 4] = [
    ("default settings", &[]),
    (
        "VMA_SPEC=latency for one thread",
        &[("VMA_SPEC", "latency")],
    ),
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/fork.c");
    let program = testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    comparison.assert_same(&program, &[case], &VARIANTS);
}

macro_rules! cases {
    ($($case:ident),* $(,)?) => { $(#[test] fn $case() { compare(stringify!($case)); })* };
}

cases!(
    queued,
    unused,
    waits,
    waits_long,
    sends,
    generations,
    lineage,
    both_wait,
    several_children,
    parent_exits,
    daemonised,
    changes,
    bound_later,
    atfork_handlers,
    raw_clone,
    in_a_handler,
    stopped_owner,
    fork_in_a_storm,
);
