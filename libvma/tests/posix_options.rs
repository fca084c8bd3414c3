//! Socket options, on the kernel and with the library.

testkit::compare_cases!(
    "options",
    VARIANTS,
    [
        packet_information,
        control_messages,
        buffers,
        sending,
        multicast,
    ]
);
