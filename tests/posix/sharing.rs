//! SO_REUSEADDR between processes, on the kernel and with the library.

testkit::compare_cases!(
    "sharing",
    FORKING_VARIANTS,
    [
        a_connected_child,
        a_connected_stranger,
        an_unconnected_stranger,
        a_stranger_before,
        the_option_comes_later,
    ]
);
