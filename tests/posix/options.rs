//! Socket options, on the kernel and with the library.

use testkit::{Comparison, VARIANTS};

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

/// Not of sockets that become the kernel's: what has passed the XDP program takes more memory
/// there.
#[test]
fn memory() {
    case("memory").compare(Comparison::new, VARIANTS);
    case("memory").compare(Comparison::over_ipv6, &VARIANTS[..1]);
    case("memory").compare(Comparison::over_real_ipv6, &VARIANTS[..1]);
}
