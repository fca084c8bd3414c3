//! Sets that are waited on under one number and changed under another, on the kernel and with the
//! library.

testkit::compare_cases!(
    "epoll_copies",
    THREADED_VARIANTS,
    [
        datagrams,
        library_first,
        bound_later,
        edges,
        listener,
        stream,
        closed_while_waiting,
        closed_later,
        passed,
        passed_to_a_child,
    ]
);
