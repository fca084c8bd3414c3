//! setns(2) and unshare(2) of network namespaces, on the kernel and with the library.

testkit::compare_cases!(
    "namespaces",
    THREADED_VARIANTS,
    [
        left_after_the_first_socket,
        bound_from_elsewhere,
        made_by_another_thread,
    ]
);
