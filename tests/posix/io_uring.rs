//! `io_uring(7)`, on the kernel and with the library: what it does to sockets of ours, and that
//! they are the kernel's where nobody sees it.

testkit::compare_cases!(
    "io_uring",
    FORKING_VARIANTS,
    [
        sets,
        sets_without_array,
        streams_in_sets,
        receiving,
        accepting,
        polled_queue,
        table,
        many_rings,
        unseen_ring_later,
        unseen_ring_in_a_child,
    ]
);
