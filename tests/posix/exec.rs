//! Programs that become others or start others, on the kernel and with the library.

testkit::compare_cases!(
    "exec",
    THREADED_VARIANTS,
    [
        executed,
        many_arguments,
        refused,
        from_a_thread,
        vforked,
        vforked_first,
        handed_down,
        commands,
    ],
);
