//! Sockets that a process and its children have in common, on the kernel and with the library.

testkit::compare_cases!(
    "fork",
    FORKING_VARIANTS,
    [
        queued,
        queued_when_full,
        unused,
        waits,
        waits_long,
        sends,
        generations,
        lineage,
        both_wait,
        several_children,
        parent_exits,
        daemonised,
        changes,
        bound_later,
        atfork_handlers,
        raw_clone,
        in_a_handler,
        stopped_owner,
        fork_in_a_storm,
        mischief,
    ],
);
