//! poll(2) and select(2), on the kernel and with the library.

testkit::compare_cases!(
    "wait",
    VARIANTS,
    [
        poll_one,
        poll_mixed,
        poll_all_ready,
        selecting,
        selecting_all,
        ppolling,
        no_descriptors,
    ]
);
