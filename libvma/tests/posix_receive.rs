//! Receive calls, on the kernel and with the library.

testkit::compare_cases!(
    "receive",
    VARIANTS,
    [
        timeout,
        dontwait,
        nonblocking,
        peek,
        truncation,
        zero_length,
        names,
        scatter,
        reads,
        many,
        many_times,
        many_errors,
        many_errors_shown,
        fionread,
        odd_flags,
        odd_arguments,
    ]
);
