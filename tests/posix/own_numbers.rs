//! Descriptors where the library keeps its own, on the kernel and with the library.

testkit::compare_cases!(
    "own_numbers",
    THREADED_VARIANTS,
    [
        replaced,
        refused,
        lowest_free,
        asleep,
        first_member,
        under_traffic,
        in_children,
    ]
);
