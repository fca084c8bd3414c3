//! bind(2), connect(2), and which socket gets a packet, on the kernel and with the library.

testkit::compare_cases!(
    "addresses",
    VARIANTS,
    [
        binding,
        connecting,
        bound_and_connected,
        connect_errors,
        any_address,
        shared_port,
        wildcard_and_exact,
        reuse_port,
        six_with_four,
        six_with_options,
    ]
);
