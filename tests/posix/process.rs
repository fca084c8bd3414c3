//! What programs do with their descriptors and themselves, on the kernel and with the library.

testkit::compare_cases!(
    "process",
    THREADED_VARIANTS,
    [
        high_numbers,
        close_everything,
        low_numbers,
        few_numbers,
        many_sockets,
        executed,
        preforked,
        daemonized,
        fork_under_traffic,
    ]
);
