//! Send calls, on the kernel and with the library.

testkit::compare_cases!(
    "send",
    VARIANTS,
    [
        sizes,
        connected,
        gather,
        many,
        errors,
        refused,
        refused_send,
        corked,
        to_myself,
        unbound,
    ]
);
