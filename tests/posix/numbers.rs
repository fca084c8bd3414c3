//! Numbers of descriptors that are used again, on the kernel and with the library.

testkit::compare_cases!(
    "numbers",
    VARIANTS,
    [created, accepted, received, streams, unseen, failed_copies]
);
