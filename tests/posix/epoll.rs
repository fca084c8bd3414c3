//! epoll(7), on the kernel and with the library.

testkit::compare_cases!(
    "epoll",
    VARIANTS,
    [
        level,
        edge,
        one_shot,
        writing,
        two_sets,
        nested,
        nested_with_data,
        polled_set,
        errors,
        closing,
        copied_set,
        fairness,
        mixed,
        read_without_wait,
    ]
);
