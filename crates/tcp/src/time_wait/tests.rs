use core::net::{Ipv4Addr, SocketAddrV4};

use wire::tcp::{Flags, Options, Timestamps};

use super::*;
use crate::SeqNumber;

const LOCAL: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 80);
const REMOTE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 12_345);
const SND_NXT: SeqNumber = SeqNumber(u32::MAX - 10);
const RCV_NXT: SeqNumber = SeqNumber(u32::MAX - 5);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn remote(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(*REMOTE.ip(), port)
}

fn residue() -> Residue {
    Residue {
        snd_nxt: SND_NXT,
        rcv_nxt: RCV_NXT,
        window: 500,
        timestamps: Some(TimestampState {
            recent: 1000,
            offset: 77,
        }),
    }
}

fn table_with(settings: Settings, residue: &Residue) -> TimeWaitTable {
    let mut table = TimeWaitTable::new([5; 16], 100, settings);
    assert!(table.insert(LOCAL, REMOTE, residue, at(10)));
    table
}

fn table() -> TimeWaitTable {
    table_with(Settings::default(), &residue())
}

fn header(seq: SeqNumber, flags: Flags, value: u32) -> Header {
    Header {
        seq: seq.0,
        ack: SND_NXT.0,
        flags,
        options: Options {
            timestamps: Some(Timestamps { value, echo: 0 }),
            ..Options::default()
        },
        ..Header::default()
    }
}

impl TimeWaitTable {
    fn judge(&mut self, header: &Header, now: Instant) -> Verdict {
        self.on_segment(LOCAL, REMOTE, header, 0, now).unwrap()
    }
}

#[test]
fn other_flows_are_not_concerned() {
    let mut table = table();
    let header = header(RCV_NXT, Flags::ACK, 1000);
    assert_eq!(table.on_segment(LOCAL, remote(1), &header, 0, at(20)), None);
    assert!(table.contains(LOCAL, REMOTE));
    assert!(!table.contains(REMOTE, LOCAL));
}

/// RFC 9293 §3.10.7.4, eighth: "Acknowledge it, and restart the 2 MSL timeout."
// Requirement: RFC 1337 3-2
#[test]
fn a_retransmitted_fin_is_answered_and_restarts_the_wait() {
    let mut table = table();
    let fin = header(RCV_NXT - 1, Flags::FIN | Flags::ACK, 1001);
    let Verdict::Answer(Answer { header }) = table.judge(&fin, at(30_000)) else {
        panic!("no answer");
    };
    assert_eq!(header.seq, SND_NXT.0);
    assert_eq!(header.ack, RCV_NXT.0);
    assert_eq!(header.flags, Flags::ACK);
    assert_eq!(header.window, 500);
    let expected = Timestamps {
        value: 30_077,
        echo: 1000,
    };
    assert_eq!(header.options.timestamps, Some(expected));
    assert_eq!(table.next_expiry(), Some(at(90_000)));
}

/// An old duplicate without ACK as much as any: the old connection's segments are still about.
#[test]
fn an_old_duplicate_restarts_the_wait() {
    for flags in [Flags::NONE, Flags::SYN, Flags::ACK] {
        let mut table = table();
        let old = header(RCV_NXT - 100, flags, 999);
        assert!(matches!(table.judge(&old, at(30_000)), Verdict::Answer(_)));
        assert_eq!(table.next_expiry(), Some(at(90_000)));
    }
}

#[test]
fn answers_are_not_repeated_too_soon() {
    let mut table = table();
    let stray = header(RCV_NXT + 5000, Flags::ACK, 1001);
    for (millis, is_answered) in [(100, true), (101, false), (599, false), (600, true)] {
        let verdict = table.judge(&stray, at(millis));
        assert_eq!(
            matches!(verdict, Verdict::Answer(_)),
            is_answered,
            "{millis}"
        );
    }
}

/// As `tcp_oow_rate_limited`: a peer that sends its FIN again waits for the answer, and cannot be
/// an echo of ours.
#[test]
fn what_occupies_sequence_numbers_is_answered_each_time() {
    let mut table = table();
    let fin = header(RCV_NXT - 1, Flags::FIN | Flags::ACK, 1001);
    let data = header(RCV_NXT - 10, Flags::ACK, 1001);
    for millis in 100..103 {
        let now = at(millis);
        assert!(matches!(table.judge(&fin, now), Verdict::Answer(_)));
        let verdict = table.on_segment(LOCAL, REMOTE, &data, 10, now);
        assert!(matches!(verdict, Some(Verdict::Answer(_))));
    }
}

/// As `tcp_paws_check`: some peers begin with a timestamp of zero.
#[test]
fn a_timestamp_of_zero_is_none() {
    let timestamps = Some(TimestampState {
        recent: 0,
        offset: 0,
    });
    let residue = Residue {
        timestamps,
        ..residue()
    };
    let mut table = table_with(Settings::default(), &residue);
    let reset = header(RCV_NXT, Flags::RST, u32::MAX);
    assert_eq!(table.judge(&reset, at(20)), Verdict::Closed);
}

#[test]
fn the_last_acknowledgement_of_the_peer_is_dropped() {
    let mut table = table();
    let ack = header(RCV_NXT, Flags::ACK, 1005);
    assert_eq!(table.judge(&ack, at(20_000)), Verdict::Drop);
    assert_eq!(table.next_expiry(), Some(at(80_000)));
    // Its timestamp counts from then on.
    let old = header(RCV_NXT, Flags::SYN, 1004);
    assert!(matches!(table.judge(&old, at(20_001)), Verdict::Answer(_)));
}

/// RFC 1337, RFC 5961 §3.2
// Requirement: RFC 1337 3-1
#[test]
fn a_reset_ends_the_wait_only_if_exact_and_permitted() {
    let mut table = table();
    let reset = |seq, value| header(seq, Flags::RST, value);
    for ignored in [
        reset(RCV_NXT + 1, 1000),
        reset(RCV_NXT - 1, 1000),
        reset(RCV_NXT, 999),
    ] {
        assert_eq!(table.judge(&ignored, at(20)), Verdict::Drop);
    }
    assert_eq!(table.judge(&reset(RCV_NXT, 1000), at(20)), Verdict::Closed);
    assert!(table.is_empty());

    let settings = Settings {
        rfc1337: true,
        ..Settings::default()
    };
    let mut careful = table_with(settings, &residue());
    assert_eq!(careful.judge(&reset(RCV_NXT, 1000), at(20)), Verdict::Drop);
    assert_eq!(careful.next_expiry(), Some(at(60_010)));
}

/// RFC 6191 §2
// Requirement: RFC 6191 2-1, 2-2
#[test]
fn a_newer_syn_opens_the_next_incarnation() {
    let iss = SND_NXT + 65_537;
    for (seq, value, is_open) in [
        (RCV_NXT + 1, 1000, true),
        (RCV_NXT - 100_000, 1001, true),
        (RCV_NXT - 100_000, 1000, false),
        (RCV_NXT + 1, 999, false),
        (RCV_NXT, 1000, false),
    ] {
        let mut table = table();
        let verdict = table.judge(&header(seq, Flags::SYN, value), at(20));
        let expected = Verdict::Open { iss };
        assert_eq!(verdict == expected, is_open, "{seq:?} {value}");
        assert_eq!(table.is_empty(), is_open);
    }
    let mut table = table();
    let syn_ack = header(RCV_NXT + 1, Flags::SYN | Flags::ACK, 2000);
    assert!(matches!(table.judge(&syn_ack, at(20)), Verdict::Answer(_)));

    let without = Residue {
        timestamps: None,
        ..residue()
    };
    let mut table = table_with(Settings::default(), &without);
    let older = header(RCV_NXT - 1, Flags::SYN, 5000);
    assert!(matches!(table.judge(&older, at(20)), Verdict::Answer(_)));
    let newer = header(RCV_NXT + 1, Flags::SYN, 0);
    assert_eq!(table.judge(&newer, at(20)), Verdict::Open { iss });
}

/// A SYN that does not open must not keep the entry alive: its next try shall find the way free.
// Requirement: RFC 6191 2-3
#[test]
fn a_refused_syn_does_not_restart_the_wait() {
    let mut table = table();
    table.judge(&header(RCV_NXT - 1, Flags::SYN, 1000), at(30_000));
    assert_eq!(table.next_expiry(), Some(at(60_010)));
}

#[test]
fn entries_expire_in_order_and_are_used_again() {
    let mut table = TimeWaitTable::new([5; 16], 3, Settings::default());
    for port in 1..=3 {
        assert!(table.insert(LOCAL, remote(port), &residue(), at(u64::from(port))));
    }
    assert!(!table.insert(LOCAL, remote(4), &residue(), at(4)), "full");
    let fin = header(RCV_NXT - 1, Flags::FIN | Flags::ACK, 1000);
    table.on_segment(LOCAL, remote(1), &fin, 0, at(1000));
    assert_eq!(table.next_expiry(), Some(at(60_002)));
    assert_eq!(table.expire(at(60_001)), 0);
    assert_eq!(table.expire(at(60_003)), 2);
    assert!(table.contains(LOCAL, remote(1)));
    for port in 4..=5 {
        assert!(table.insert(LOCAL, remote(port), &residue(), at(60_010)));
    }
    assert_eq!(table.ipv4.entries.len(), 3, "no new memory");
    assert_eq!(table.next_expiry(), Some(at(61_000)));
    assert_eq!(table.expire(at(200_000)), 3);
    assert_eq!(table.next_expiry(), None);
    assert!(table.is_empty());
}

/// Insertion, segments and expiry at random keep the lists whole.
#[test]
fn random_histories_keep_the_lists_whole() {
    let mut table = TimeWaitTable::new([5; 16], 50, Settings::default());
    let mut random = 1_u64;
    let mut now = at(1);
    for _ in 0..20_000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let port = u16::try_from(random >> 40 & 63).unwrap();
        now = now + Duration::from_millis(random >> 33 & 2047);
        match random >> 60 {
            0..6 if !table.contains(LOCAL, remote(port)) => {
                table.insert(LOCAL, remote(port), &residue(), now);
            }
            6..13 => {
                let flags = [Flags::ACK, Flags::FIN | Flags::ACK, Flags::RST, Flags::SYN];
                let flags = flags[usize::from(port) & 3];
                let seq = RCV_NXT + u32::from(port & 4);
                table.on_segment(LOCAL, remote(port), &header(seq, flags, 1000), 0, now);
            }
            _ => {
                table.expire(now);
            }
        }
        let (mut index, mut previous, mut count, mut last) =
            (table.ipv4.oldest, NIL, 0, Instant::ZERO);
        while let Some(entry) = table.ipv4.entries.get(position(index)) {
            assert_eq!(entry.previous, previous);
            assert!(entry.expires >= last);
            (previous, index, last, count) = (index, entry.next, entry.expires, count + 1);
        }
        assert_eq!(previous, table.ipv4.newest);
        assert_eq!(count, table.len());
    }
}

#[test]
fn both_families_wait_in_one_table() {
    let mut table = TimeWaitTable::new([5; 16], 3, Settings::default());
    let [local, remote]: [SocketAddr; 2] =
        ["[fd00::1]:80", "[fd00::2]:12345"].map(|text| text.parse().unwrap());
    assert!(table.insert(local, remote, &residue(), at(10)));
    assert!(table.insert(LOCAL, REMOTE, &residue(), at(20)));
    assert!(table.contains(local, remote) && !table.contains(remote, local));
    let other = SocketAddrV4::new(*REMOTE.ip(), 1);
    assert!(table.insert(LOCAL, other, &residue(), at(30)));
    assert!(
        !table.insert(remote, local, &residue(), at(30)),
        "it is full"
    );

    let fin = header(RCV_NXT - 1, Flags::FIN | Flags::ACK, 1001);
    let verdict = table.on_segment(local, remote, &fin, 0, at(1010));
    assert!(matches!(verdict, Some(Verdict::Answer(_))), "{verdict:?}");
    assert_eq!(table.next_expiry(), Some(at(60_020)));
    assert_eq!(table.expire(at(60_030)), 2);
    assert_eq!((table.len(), table.next_expiry()), (1, Some(at(61_010))));
    assert_eq!(table.expire(at(61_010)), 1);
    assert!(table.is_empty());
}
