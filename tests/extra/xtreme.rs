//! SocketXtreme: packets, events and connections by a ring.

use testkit::{Skip, Variant, or_skip};

use crate::{said_in, with_echo};

const XTREME: &[Variant] = &[
    ("default settings", &[("VMA_SOCKETXTREME", "1")]),
    (
        "sleeping at once",
        &[
            ("VMA_SOCKETXTREME", "1"),
            ("VMA_RX_POLL", "0"),
            ("VMA_SELECT_POLL", "0"),
        ],
    ),
];
const PLAIN: &[Variant] = &[("default settings", &[])];

/// Each case says the same in every way to run the library.
fn says(case: &str, variants: &[Variant], expected: &str) -> Result<(), Skip> {
    let comparison = with_echo()?;
    for (name, environment) in variants {
        let said = said_in(&comparison, "extra_xtreme", case, environment);
        assert_eq!(said, expected, "{case} with {name}");
    }
    Ok(())
}

#[test]
fn datagrams_are_taken_by_their_ring() {
    let expected = "short data: -1 EINVAL\n\
         rings 1, given 1, known 1, the same for sending 1\n\
         rings 1, given 1, known 1, the same for sending 1\n\
         one ring 1\n\
         no ring: -1 EBADFD\n\
         nothing: 0\n\
         no array: -1 EINVAL\n\
         no socket: -1 EINVAL\n\
         no callback: -1 EOPNOTSUPP\n\
         taken 3\n\
         \x20 packet of 1 buffers, 20 octets: abcdefgh, of 10.77.0.1, data 77\n\
         \x20 packet of 1 buffers, 20 octets: bcdefghi, of 10.77.0.1, data 77\n\
         \x20 packet of 1 buffers, 20 octets: cdefghij, of 10.77.0.1, data 77\n\
         one user more: 2\n\
         free: 0\n\
         still abcdefgh\n\
         the last user: 0\n\
         no user: -1 EINVAL\n\
         nor this: -1 EINVAL\n\
         free again: -1 EINVAL\n\
         free several: 0\n\
         no buffer: -1 EINVAL\n\
         nor this: -1 EINVAL\n\
         no packets: -1 EINVAL\n\
         none: 0\n\
         poll: 1\n\
         recv: 20\n\
         \x20 abcdefgh\n\
         not by the ring: 0\n\
         recv: 20\n\
         \x20 abcdefgh\n\
         not by the ring: 0\n\
         taken 1\n\
         poll: 0\n\
         recv: -1 EAGAIN\n\
         \x20 packet of 1 buffers, 20 octets: abcdefgh, of 10.77.0.1, data 78\n\
         free: 0\n\
         past close: 0\n\
         quiet ring: 0\n\
         ring: 1\n\
         taken 1\n\
         of a closed one: 0\n\
         end of datagrams\n";
    or_skip!(says("datagrams", XTREME, expected));
}

#[test]
fn without_the_parameter_there_is_none() {
    let expected = "poll: -1 EOPNOTSUPP\n\
         rings: 1\n\
         rings: 1\n\
         free: -1 EOPNOTSUPP\n\
         free: -1 EOPNOTSUPP\n\
         ref: -1 EOPNOTSUPP\n\
         recv: 20\n\
         \x20 abcdefgh\n\
         end of plain\n";
    or_skip!(says("plain", PLAIN, expected));
}

#[test]
fn streams_tell_of_data_and_events() {
    let expected = "none yet: 0\n\
         rings 1, given 1, known 1, the same for sending 1\n\
         0 octets: \n\
         connected 1\n\
         8 octets: question\n\
         recv: -1 EAGAIN\n\
         5 octets: again\n\
         recv: 9\n\
         \x20 by a cal\n\
         not by the ring: 0\n\
         0 octets: \n\
         the end 1\n\
         end of streams\n";
    or_skip!(says("streams", XTREME, expected));
}

#[test]
fn connections_are_accepted_by_the_ring() {
    let expected = "rings 1, given 1, known 1, the same for sending 1\n\
         accepted 1, by the listener 1, of 10.77.0.1\n\
         its peer: 0\n\
         the same 1\n\
         1 octets: c\n\
         5 octets: hello\n\
         end of accepted\n";
    or_skip!(says("accepted", XTREME, expected));
}

#[test]
fn more_can_be_held_than_there_are_frames() {
    let expected = "rings 1, given 1, known 1, the same for sending 1\n\
         taken 6000, wrong 0\n\
         freed, wrong 0\n\
         one more 1\n\
         end of many\n";
    or_skip!(says("many", &XTREME[..1], expected));
}

#[test]
fn threads_share_a_ring_and_children_get_copies() {
    let expected = "rings 1, given 1, known 1, the same for sending 1\n\
         taken 2000\n\
         child 0\n\
         still abcdefgh\n\
         free: 0\n\
         end of threads\n";
    or_skip!(says("threads", XTREME, expected));
}
