//! Options on the wire: RFC 9293 §3.1, RFC 7323 §1.3, RFC 2018 §2.

use wire::tcp::Options as HeaderOptions;

// Requirement: RFC 9293 MUST-4, MUST-6, MUST-64, MUST-68
#[test]
fn unknown_options_are_skipped_wherever_they_are() {
    // Kind 253 (RFC 4727), with one octet of data or none, moves MSS off every boundary.
    for unknown in [&[253, 2][..], &[253, 3, 9], &[1, 253, 5, 1, 2, 3]] {
        let list = [unknown, &[2, 4, 0x05, 0xb4], unknown, &[1, 0]].concat();
        let parsed = HeaderOptions::parse(&list, true);
        let expected = HeaderOptions {
            mss: Some(1460),
            ..HeaderOptions::default()
        };
        assert_eq!(parsed, expected, "{list:?}");
    }
}
