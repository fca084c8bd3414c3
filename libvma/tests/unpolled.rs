//! What comes while neither the program nor the library's thread polls, on the kernel and with the library.

use std::path::Path;

use testkit::{Comparison, Variant, compile_c, or_skip};

/// Only the program's own calls take anything in.
const UNPOLLED: &[Variant] = &[
    ("generic mode", &[("VMA_PROGRESS_ENGINE_INTERVAL", "0")]),
    (
        "native mode",
        &[
            ("VMA_PROGRESS_ENGINE_INTERVAL", "0"),
            ("VMA_XDP_MODE", "native"),
        ],
    ),
];

#[test]
fn datagrams_bear_the_time_of_their_arrival() {
    let comparison = or_skip!(Comparison::new());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/options.c");
    let program = compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    comparison.assert_same(&program, &["stamped"], UNPOLLED);
}
