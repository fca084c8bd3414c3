//! Several threads on one socket, on the kernel and with the library.

testkit::compare_cases!(
    "threads",
    THREAD_MODE_VARIANTS,
    [
        unbound,
        late_poll,
        late_member,
        cancelled,
        cancelled_anywhere,
        cancelled_before,
        cancelled_at_once,
        cancelled_leave_nothing,
        stream_cancelled_at_once,
        several_receivers,
        several_pollers,
        sleeper_and_drainer,
        one_shot_pool,
        destructor,
        shut_down,
        sets_of_their_own,
        a_herd,
        herd_is_cancelled,
        herd_jumps,
        herd_forks,
    ]
);
