//! Threads that close, copy and reuse descriptors, on the kernel and with the library.

testkit::compare_cases!(
    "races",
    THREAD_MODE_VARIANTS,
    [one_number, many_numbers, copies, members]
);
