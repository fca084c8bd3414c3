//! Receive calls, on the kernel and with the library.

use testkit::{Comparison, Variant};

testkit::compare_cases!(
    "receive",
    VARIANTS,
    [
        timeout,
        dontwait,
        nonblocking,
        peek,
        truncation,
        zero_length,
        names,
        scatter,
        reads,
        many,
        many_times,
        many_errors,
        many_errors_shown,
        fionread,
        odd_flags,
        odd_arguments,
    ]
);

/// Servers that are never idle. The latency profile's own ratio of 0 asks for no look at the
/// kernel.
const LOOKING: &[Variant] = &[
    testkit::VARIANTS[0],
    testkit::VARIANTS[2],
    (
        "VMA_SPEC=latency, with looks at the kernel",
        &[("VMA_SPEC", "latency"), ("VMA_RX_UDP_POLL_OS_RATIO", "100")],
    ),
];

#[test]
fn saturated_from_outside() {
    case("saturated_from_outside").compare(Comparison::new, LOOKING);
    case("saturated_from_outside").compare(Comparison::over_real_ipv6, &LOOKING[..1]);
}

#[test]
fn saturated_by_the_host() {
    case("saturated_by_the_host").compare(Comparison::new, LOOKING);
    case("saturated_by_the_host").compare(Comparison::over_real_ipv6, &LOOKING[..1]);
}
