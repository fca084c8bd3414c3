//! Socket options, on the kernel and with the library.

testkit::compare_cases!(
    "options",
    VARIANTS,
    [
        packet_information,
        control_messages,
        told,
        merged,
        cut,
        lost,
        said,
        said_wrong,
        segments,
        errors,
        device,
        read_back,
        rarer,
        buffers,
        sending,
        multicast,
    ]
);
