//! Sockets that stay the kernel's beside one that is accelerated, on the kernel and with the
//! library.

testkit::compare_cases!(
    "kernels",
    VARIANTS,
    [names, many, epoll_waits, spent_before, polls]
);
