//! Source filters (RFC 3376): whose datagrams a member of a group gets, by every option that says
//! so.

use testkit::{Namespaces, Pair, or_skip};

use crate::script::Step::{Do, Send, SendFrom};
use crate::script::{after_each, compare};

pub(crate) const ONE: &str = "10.77.0.1";
pub(crate) const NINE: &str = "10.77.0.9";
/// What the program has after each statement.
const SHOW: &str = "take(s); show_filter(s, 23, '239.1.1.1')";

pub(crate) fn pair_with_two_sources() -> Result<Pair, testkit::Skip> {
    let pair = Namespaces::pair()?;
    pair.a
        .ip(&["address", "add", "10.77.0.9/24", "dev", "va"])
        .unwrap();
    Ok(pair)
}

#[test]
#[ignore = "takes half a minute"]
fn each_option_changes_whose_datagrams_come() {
    let pair = or_skip!(pair_with_two_sources());
    for (port, statements, past) in [
        (
            "239.1.1.1:7300",
            &[
                "s = udp(ANY, 7300); join(s, '239.1.1.1')",
                // IP_BLOCK_SOURCE and IP_UNBLOCK_SOURCE, twice and of those that are not.
                "option(s, 38, sources('239.1.1.1', ADDRESS, '10.77.0.9'))",
                "option(s, 38, sources('239.1.1.1', ADDRESS, '10.77.0.9'))",
                "option(s, 38, sources('239.1.1.1', ADDRESS, '10.77.0.1'))",
                "option(s, 37, sources('239.1.1.1', ADDRESS, '10.77.0.1'))",
                "option(s, 37, sources('239.1.1.1', ADDRESS, '10.77.0.1'))",
                // IP_ADD_SOURCE_MEMBERSHIP of who is a member for all.
                "option(s, 39, sources('239.1.1.1', ADDRESS, '10.77.0.1'))",
            ][..],
            &[2, 1, 1, 0, 1, 1, 1][..],
        ),
        (
            "239.1.1.1:7301",
            &[
                // IP_ADD_SOURCE_MEMBERSHIP and IP_DROP_SOURCE_MEMBERSHIP; not a member with the
                // last source gone.
                "s = udp('239.1.1.1', 7301); option(s, 39, sources('239.1.1.1', ADDRESS, '10.77.0.9'))",
                "option(s, 39, sources('239.1.1.1', ADDRESS, '10.77.0.1'))",
                "option(s, 40, sources('239.1.1.1', ADDRESS, '10.77.0.9'))",
                "option(s, 40, sources('239.1.1.1', ADDRESS, '10.77.0.1'))",
                // IP_MSFILTER, of who is no member and of who is.
                "option(s, 41, sources('239.1.1.1', ADDRESS) + struct.pack('II', 1, 1) + sources('10.77.0.9'))",
                "join(s, '239.1.1.1'); option(s, 41, sources('239.1.1.1', ADDRESS) + struct.pack('II', 1, 1) + sources('10.77.0.9'))",
                "option(s, 41, sources('239.1.1.1', ADDRESS) + struct.pack('II', 0, 1) + sources('10.77.0.9'))",
            ],
            &[1, 2, 1, 0, 0, 1, 1],
        ),
        (
            "239.1.1.1:7302",
            &[
                // MCAST_JOIN_GROUP, MCAST_BLOCK_SOURCE, MCAST_UNBLOCK_SOURCE, MCAST_LEAVE_GROUP
                "s = udp(ANY, 7302); option(s, 42, of_interface(23, '239.1.1.1'))",
                "option(s, 43, of_interface(23, '239.1.1.1', '10.77.0.1'))",
                "option(s, 44, of_interface(23, '239.1.1.1', '10.77.0.1'))",
                "option(s, 45, of_interface(23, '239.1.1.1'))",
                // MCAST_JOIN_SOURCE_GROUP, MCAST_LEAVE_SOURCE_GROUP, MCAST_MSFILTER
                "option(s, 46, of_interface(23, '239.1.1.1', '10.77.0.9'))",
                "option(s, 46, of_interface(23, '239.1.1.1', '10.77.0.1'))",
                "option(s, 47, of_interface(23, '239.1.1.1', '10.77.0.1'))",
                "option(s, 48, filter_of(23, '239.1.1.1', 0, '10.77.0.9', '10.77.0.8'))",
                "option(s, 48, filter_of(23, '239.1.1.1', 1, '10.77.0.9', '10.77.0.1'))",
                "option(s, 48, filter_of(23, '239.1.1.1', 7))",
            ],
            &[2, 1, 2, 0, 1, 2, 1, 1, 2, 2],
        ),
    ] {
        let past = past.iter().sum();
        compare(
            &pair,
            &after_each(statements, [ONE, NINE], port, SHOW),
            past,
            0,
        );
    }
}

#[test]
fn each_member_has_its_own_filter() {
    let pair = or_skip!(pair_with_two_sources());
    let both = |text| {
        [
            SendFrom(ONE, "239.1.1.1:7310", text),
            SendFrom(NINE, "239.1.1.1:7310", text),
        ]
    };
    let mut steps = vec![
        Do("a, b, c = [udp('239.1.1.1', 7310) for _ in range(3)]"),
        Do("option(a, 39, sources('239.1.1.1', ADDRESS, '10.77.0.1'))"),
        Do("join(b, '239.1.1.1'); option(b, 38, sources('239.1.1.1', ADDRESS, '10.77.0.1'))"),
        Do("join(c, '239.1.1.1'); option(c, 49, 0)"),
    ];
    steps.extend(both("x"));
    steps.push(Do("take(a); take(b); take(c)"));
    compare(&pair, &steps, 4, 0);
}

#[test]
fn who_takes_all_gets_what_some_member_lets_in() {
    let pair = or_skip!(pair_with_two_sources());
    let steps = [
        // Only the kernel knows what members in other processes let in.
        Do("a, b = udp('239.1.1.1', 7320), udp('239.1.1.1', 7320)"),
        Do("option(a, 39, sources('239.1.1.1', ADDRESS, '10.77.0.1'))"),
        SendFrom(ONE, "239.1.1.1:7320", "one"),
        SendFrom(NINE, "239.1.1.1:7320", "nine"),
        Do("take(a); take(b)"),
        // Who is for all lets in all.
        Do("c = udp('239.1.1.1', 7320); join(c, '239.1.1.1')"),
        Send("239.1.1.1:7320", "to all"),
        SendFrom(NINE, "239.1.1.1:7320", "to all but one"),
        Do("take(a); take(b); take(c)"),
    ];
    compare(&pair, &steps, 0, 7);
}
