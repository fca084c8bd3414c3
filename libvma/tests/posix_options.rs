//! Socket options, on the kernel and with the library.

testkit::compare_cases!(
    "options",
    VARIANTS,
    [control_messages, buffers, sending, multicast,]
);
