//! Copies, reuse and inheritance of descriptors, on the kernel and with the library.

testkit::compare_cases!(
    "descriptors",
    VARIANTS,
    [
        copies,
        replaced,
        reused,
        ranges,
        forked,
        daemon_like,
        forked_early,
        spawned,
        passed,
    ]
);
