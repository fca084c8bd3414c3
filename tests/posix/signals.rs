//! Signals that come while a call waits, on the kernel and with the library.

testkit::compare_cases!(
    "signals",
    VARIANTS,
    [
        receiving,
        waiting,
        masks,
        actions,
        inside_a_handler,
        closed_by_a_handler,
        answered_by_a_handler,
        long_jump,
        installers,
        install_race,
        vfork_child,
        jump_storm,
        child_ends,
    ]
);
