//! The XDP program, run by the kernel on one frame at a time (`BPF_PROG_TEST_RUN`), and its
//! attachment to a veth interface.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::thread;
use std::time::{Duration, Instant};

use dev_xdp::bpf::BpfError;
use dev_xdp::bpf::hidden::Hidden;
use dev_xdp::bpf::link::{AttachError, AttachMode, XdpLink};
use dev_xdp::bpf::program::{Capacity, FlowMaps, OnMatch, Program, Verdict};
use testkit::{Namespaces, Skip, eventually, or_skip};
use wire::{EthernetAddresses, UdpTemplate};

const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const PEER_MAC: [u8; 6] = [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
const FRAME_CAPACITY: u32 = 1792;
const TCP: u8 = 6;
const UDP: u8 = 17;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Redirected from any source.
const OPEN: SocketAddrV4 = SocketAddrV4::new(ADDRESS, 12_345);
/// Redirected from `PEER` only.
const CONNECTED: SocketAddrV4 = SocketAddrV4::new(ADDRESS, 5_000);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 200), 40_001);

/// A multicast group, once it is joined.
const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 129, 2, 3), 12_345);

/// Connections from `PEER` only.
const STREAMS: SocketAddrV4 = SocketAddrV4::new(ADDRESS, 80);

/// Headers before the payload of a datagram, in bytes.
const UDP_IN_IPV4: usize = 42;

/// A verdict that stands for "ours" where no AF_XDP socket is there to redirect to.
const OURS: Verdict = Verdict::Tx;

struct Fixture {
    maps: FlowMaps,
    program: Program,
}

impl Fixture {
    fn new() -> Result<Self, Skip> {
        Self::with(FRAME_CAPACITY, OnMatch::Verdict(OURS))
    }

    fn with(frame_capacity: u32, on_match: OnMatch) -> Result<Self, Skip> {
        Self::with_pieces(frame_capacity, on_match, false)
    }

    fn with_pieces(frame_capacity: u32, on_match: OnMatch, in_pieces: bool) -> Result<Self, Skip> {
        let maps = create_maps()?;
        maps.add_port(OPEN, UDP).unwrap();
        maps.add_flow(CONNECTED, PEER, UDP).unwrap();
        maps.add_flow(STREAMS, PEER, TCP).unwrap();
        let capacity = Capacity {
            frame_bytes: frame_capacity,
            in_pieces,
        };
        let program = Program::load(&maps, MAC, capacity, on_match, Hidden::Nothing).unwrap();
        Ok(Self { maps, program })
    }

    #[track_caller]
    fn assert_verdict(&self, frame: &[u8], expected: Verdict, what: &str) {
        assert_eq!(
            self.program.test_run(frame).unwrap(),
            expected,
            "{what}: {frame:02x?}"
        );
    }
}

fn create_maps() -> Result<FlowMaps, Skip> {
    FlowMaps::create(64).map_err(|error| match error.errno() {
        Some(libc::EPERM | libc::ENOSYS) => Skip::new(format!("{error}")),
        _ => panic!("{error}"),
    })
}

fn frame_between(source: SocketAddrV4, destination: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let eth = EthernetAddresses {
        source: PEER_MAC,
        destination: MAC,
    };
    let template = UdpTemplate::new(eth, source, destination, 64, 0, true);
    let mut frame = vec![0; template.header_len() + payload.len()];
    template.emit_one(&mut frame, 1, payload).unwrap();
    frame
}

fn our_frame() -> Vec<u8> {
    frame_between(PEER, OPEN, b"market data")
}

/// `our_frame` with the bytes at `offset` replaced.
fn changed(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = our_frame();
    frame[offset..offset + bytes.len()].copy_from_slice(bytes);
    frame
}

/// `our_frame` with `bytes` inserted at `offset`.
fn inserted(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let frame = our_frame();
    [&frame[..offset], bytes, &frame[offset..]].concat()
}

#[test]
fn frames_of_our_ports_match_whoever_sends_them() {
    let fixture = or_skip!(Fixture::new());
    let strangers = [(10, 1), (200, 40_001), (200, 40_002), (255, 65_535)];
    for (host, port) in strangers {
        let source = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, host), port);
        fixture.assert_verdict(&frame_between(source, OPEN, b"x"), OURS, "any source");
    }
    fixture.assert_verdict(&frame_between(PEER, OPEN, b""), OURS, "empty payload");
    fixture.assert_verdict(
        &[our_frame(), vec![0; 7]].concat(),
        OURS,
        "Ethernet padding",
    );
    fixture.assert_verdict(&changed(20, &[0x00]), OURS, "may be fragmented, but is not");
    fixture.assert_verdict(&changed(15, &[0xb8]), OURS, "other TOS");
    fixture.assert_verdict(&changed(40, &[0, 0]), OURS, "no UDP checksum");
}

#[test]
fn everything_else_passes_to_the_kernel() {
    let fixture = or_skip!(Fixture::new());
    fixture.assert_verdict(&our_frame(), OURS, "the unchanged frame");

    for (what, frame) in foreign_frames() {
        fixture.assert_verdict(&frame, Verdict::Pass, what);
    }
}

/// Frames that differ from `our_frame` in one respect, for which the kernel must get them.
fn foreign_frames() -> Vec<(&'static str, Vec<u8>)> {
    let udp_length = u16::try_from(8 + b"market data".len()).unwrap();
    let ip_length = udp_length + 20;
    let elsewhere = Ipv4Addr::new(192, 0, 2, 2);
    vec![
        ("other MAC, last byte", changed(5, &[0x54])),
        ("other MAC, first byte", changed(0, &[0x06])),
        ("other MAC, third byte", changed(2, &[0x23])),
        ("broadcast", changed(0, &[0xff; 6])),
        ("multicast", changed(0, &[0x01, 0x00, 0x5e, 0, 0, 1])),
        ("ARP", changed(12, &[0x08, 0x06])),
        ("IPv6 EtherType", changed(12, &[0x86, 0xdd])),
        ("VLAN tag", inserted(12, &[0x81, 0x00, 0x00, 0x05])),
        ("802.1ad tag", inserted(12, &[0x88, 0xa8, 0x00, 0x05])),
        ("IP version 6", changed(14, &[0x65])),
        ("IP version 0", changed(14, &[0x05])),
        ("IHL 6, options inserted", {
            let mut frame = inserted(34, &[1, 1, 1, 0]);
            frame[14] = 0x46;
            frame[16..18].copy_from_slice(&(ip_length + 4).to_be_bytes());
            frame
        }),
        ("IHL 6, options claimed", changed(14, &[0x46])),
        ("IHL 4", changed(14, &[0x44])),
        ("first fragment", changed(20, &[0x20, 0x00])),
        ("middle fragment", changed(20, &[0x20, 0x10])),
        ("last fragment", changed(20, &[0x00, 0x10])),
        (
            "fragment with the highest offset",
            changed(20, &[0x1f, 0xff]),
        ),
        (
            "fragment with the lowest offset, don't fragment",
            changed(20, &[0x40, 0x01]),
        ),
        ("IP length one more than the frame", {
            let mut frame = changed(16, &(ip_length + 1).to_be_bytes());
            frame[38..40].copy_from_slice(&(udp_length + 1).to_be_bytes());
            frame
        }),
        ("IP length 65535", changed(16, &[0xff, 0xff])),
        ("IP length 0", changed(16, &[0, 0])),
        ("IP length 19", changed(16, &[0, 19])),
        ("IP length 27, UDP length 7", {
            let mut frame = changed(16, &[0, 27]);
            frame[38..40].copy_from_slice(&[0, 7]);
            frame
        }),
        ("IP length 19, UDP length -1", {
            let mut frame = changed(16, &[0, 19]);
            frame[38..40].copy_from_slice(&[0xff, 0xff]);
            frame
        }),
        (
            "IP length one less than UDP says",
            changed(16, &(ip_length - 1).to_be_bytes()),
        ),
        (
            "UDP length one more",
            changed(38, &(udp_length + 1).to_be_bytes()),
        ),
        (
            "UDP length one less",
            changed(38, &(udp_length - 1).to_be_bytes()),
        ),
        ("UDP length 0", changed(38, &[0, 0])),
        ("TCP", changed(23, &[6])),
        ("ICMP", changed(23, &[1])),
        ("UDP-Lite", changed(23, &[136])),
        ("other port, same low byte", changed(36, &[0x31, 0x39])),
        ("other port, same high byte", changed(36, &[0x30, 0x38])),
        ("port with its bytes exchanged", changed(36, &[0x39, 0x30])),
        (
            "other address",
            frame_between(PEER, SocketAddrV4::new(elsewhere, OPEN.port()), b"x"),
        ),
        ("our address as the source", frame_between(OPEN, PEER, b"x")),
    ]
}

/// A datagram to a group, with another destination in the Ethernet header or in that of IP.
fn group_frame(group: [u8; 4], mac: [u8; 6]) -> Vec<u8> {
    let destination = SocketAddrV4::new(group.into(), GROUP.port());
    let mut frame = frame_between(PEER, destination, b"market data");
    frame[..6].copy_from_slice(&mac);
    frame
}

#[test]
fn frames_of_joined_groups_match_with_the_groups_ethernet_address() {
    let fixture = or_skip!(Fixture::new());
    let low = SocketAddrV4::new(Ipv4Addr::new(224, 1, 2, 3), GROUP.port());
    for group in [GROUP, low] {
        fixture.maps.add_port(group, UDP).unwrap();
    }
    let its_mac = [0x01, 0x00, 0x5e, 0x01, 0x02, 0x03];
    for (what, group, mac) in [
        (
            "the upper bit is not in the address",
            [239, 129, 2, 3],
            its_mac,
        ),
        ("no upper bit", [224, 1, 2, 3], its_mac),
        ("to us in Ethernet", [239, 129, 2, 3], MAC),
    ] {
        fixture.assert_verdict(&group_frame(group, mac), OURS, what);
    }
    for (what, group, mac) in [
        ("another group", [239, 129, 2, 4], [0x01, 0, 0x5e, 1, 2, 4]),
        (
            "a group with the same Ethernet address",
            [238, 1, 2, 3],
            its_mac,
        ),
        (
            "another last byte",
            [239, 129, 2, 3],
            [0x01, 0, 0x5e, 1, 2, 4],
        ),
        (
            "another middle byte",
            [239, 129, 2, 3],
            [0x01, 0, 0x5e, 1, 3, 3],
        ),
        (
            "another first byte",
            [239, 129, 2, 3],
            [0x01, 0, 0x5e, 2, 2, 3],
        ),
        (
            "the upper bit",
            [239, 129, 2, 3],
            [0x01, 0, 0x5e, 0x81, 2, 3],
        ),
        ("not of IPv4", [239, 129, 2, 3], [0x01, 0, 0x5f, 1, 2, 3]),
        (
            "not of the IETF",
            [239, 129, 2, 3],
            [0x01, 1, 0x5e, 1, 2, 3],
        ),
        ("to everyone", [239, 129, 2, 3], [0xff; 6]),
        ("to us in IP", ADDRESS.octets(), [0x01, 0, 0x5e, 0, 2, 1]),
    ] {
        fixture.assert_verdict(&group_frame(group, mac), Verdict::Pass, what);
    }
}

#[test]
fn exact_flows_match_all_of_the_five_tuple() {
    let fixture = or_skip!(Fixture::new());
    fixture.assert_verdict(
        &frame_between(PEER, CONNECTED, b"x"),
        OURS,
        "the exact flow",
    );
    let strangers = [
        (
            "other peer port",
            SocketAddrV4::new(*PEER.ip(), PEER.port() + 1),
        ),
        (
            "other peer address",
            SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 201), PEER.port()),
        ),
    ];
    for (what, stranger) in strangers {
        let frame = frame_between(stranger, CONNECTED, b"x");
        fixture.assert_verdict(&frame, Verdict::Pass, what);
    }
    // The flow of one port says nothing about another port.
    let other = SocketAddrV4::new(ADDRESS, 5_001);
    fixture.assert_verdict(
        &frame_between(PEER, other, b"x"),
        Verdict::Pass,
        "flow of other port",
    );
}

#[test]
fn ports_that_share_a_slot_are_told_apart() {
    let fixture = or_skip!(Fixture::new());
    let maps = &fixture.maps;
    let port = |number| SocketAddrV4::new(ADDRESS, number);
    let neighbour = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), OPEN.port());
    let same_slot = [port(OPEN.port() + 256), port(OPEN.port() + 512), neighbour];
    let verdict = |to| {
        fixture
            .program
            .test_run(&frame_between(PEER, to, b"x"))
            .unwrap()
    };
    for other in same_slot {
        assert_eq!(verdict(other), Verdict::Pass, "{other} was not added");
        maps.add_port(other, UDP).unwrap();
        assert_eq!((verdict(other), verdict(OPEN)), (OURS, OURS));
    }
    // The one in the slot goes, the others stay.
    maps.remove_port(neighbour, UDP).unwrap();
    assert_eq!(verdict(neighbour), Verdict::Pass);
    for other in [OPEN, same_slot[0], same_slot[1]] {
        assert_eq!(verdict(other), OURS, "{other}");
    }
    // One that others have pushed out of the slot goes.
    maps.remove_port(same_slot[0], UDP).unwrap();
    assert_eq!(
        (verdict(same_slot[0]), verdict(OPEN)),
        (Verdict::Pass, OURS)
    );
    // The one in the slot goes and comes back.
    maps.add_port(OPEN, UDP).unwrap();
    assert_eq!(verdict(OPEN), OURS);
    maps.remove_port(OPEN, UDP).unwrap();
    assert_eq!(verdict(OPEN), Verdict::Pass);
    assert_eq!(verdict(same_slot[1]), OURS);
    maps.add_port(OPEN, UDP).unwrap();
    assert_eq!(verdict(OPEN), OURS);
    // A flow of one peer to a port whose slot another one has.
    maps.add_flow(neighbour, PEER, UDP).unwrap();
    assert_eq!(verdict(neighbour), OURS);
}

#[test]
fn entries_of_another_protocol_do_not_count() {
    let fixture = or_skip!(Fixture::new());
    let (port, tcp) = (SocketAddrV4::new(ADDRESS, 80), 6);
    fixture.maps.add_port(port, tcp).unwrap();
    let mut frame = frame_between(PEER, port, b"x");
    fixture.assert_verdict(&frame, Verdict::Pass, "UDP to a TCP port");
    frame[23] = tcp;
    fixture.assert_verdict(&frame, Verdict::Pass, "TCP, which the program leaves alone");

    fixture.maps.remove_flow(CONNECTED, PEER, UDP).unwrap();
    fixture.maps.add_flow(CONNECTED, PEER, tcp).unwrap();
    let frame = frame_between(PEER, CONNECTED, b"x");
    fixture.assert_verdict(&frame, Verdict::Pass, "UDP of a TCP flow");
}

#[test]
fn every_truncation_passes() {
    let fixture = or_skip!(Fixture::new());
    let frame = our_frame();
    // The kernel's test run takes no frame without a whole Ethernet header.
    for length in 14..frame.len() {
        fixture.assert_verdict(&frame[..length], Verdict::Pass, "truncated");
    }
    fixture.assert_verdict(&frame, OURS, "whole");
}

#[test]
fn frames_match_up_to_the_capacity_of_a_buffer() {
    let fixture = or_skip!(Fixture::new());
    let largest = vec![0x5a; FRAME_CAPACITY as usize - UDP_IN_IPV4];
    let frame = frame_between(PEER, OPEN, &largest);
    fixture.assert_verdict(&frame, OURS, "as long as a buffer");
    // Padding takes room in the buffer too.
    fixture.assert_verdict(
        &[frame, vec![0]].concat(),
        Verdict::Pass,
        "one byte of padding more",
    );
    let frame = frame_between(PEER, OPEN, &[largest, vec![0]].concat());
    fixture.assert_verdict(&frame, Verdict::Pass, "one byte of payload more");

    for capacity in [0xffff, 0x1_0000, u32::MAX] {
        let fixture = Fixture::with(capacity, OnMatch::Verdict(OURS)).unwrap();
        fixture.assert_verdict(&our_frame(), OURS, "more capacity than frames can use");
    }
    let nothing_fits = Fixture::with(0, OnMatch::Verdict(OURS)).unwrap();
    nothing_fits.assert_verdict(&our_frame(), Verdict::Pass, "no capacity");
}

/// A TCP segment from `PEER`.
fn segment_to(destination: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let eth = EthernetAddresses {
        source: PEER_MAC,
        destination: MAC,
    };
    let template = wire::tcp::Template::new(eth, PEER, destination, 64, 0, true);
    let mut frame = vec![0; wire::tcp::Template::MAX_HEADERS_LEN + payload.len()];
    let header = wire::tcp::Header::default();
    let len = template.emit(&mut frame, 1, 0, &header, [payload]);
    frame.truncate(len.unwrap());
    frame
}

#[test]
fn segments_of_our_connections_match() {
    let fixture = or_skip!(Fixture::new());
    fixture.assert_verdict(&segment_to(STREAMS, b""), OURS, "no payload");
    fixture.assert_verdict(&segment_to(STREAMS, b"GET /"), OURS, "payload");
    fixture.assert_verdict(&segment_to(OPEN, b"x"), Verdict::Pass, "a port of UDP's");
    fixture.assert_verdict(
        &frame_between(PEER, STREAMS, b"x"),
        Verdict::Pass,
        "a datagram to a port of TCP's",
    );
    let mut stranger = segment_to(STREAMS, b"x");
    stranger[35] ^= 1;
    fixture.assert_verdict(&stranger, Verdict::Pass, "another port of the peer's");
    let mut short = segment_to(STREAMS, b"");
    short[16..18].copy_from_slice(&39_u16.to_be_bytes());
    fixture.assert_verdict(&short, Verdict::Pass, "half a header");
}

/// A segment from `PEER` with these flags.
fn segment_with(flags: u8, destination: SocketAddrV4) -> Vec<u8> {
    let mut segment = segment_to(destination, b"");
    segment[47] = flags;
    segment
}

/// A segment with so many words of options in its IP header, such as do nothing.
fn with_options(segment: &[u8], words: u8) -> Vec<u8> {
    let len = usize::from(words) * 4;
    let mut frame = [&segment[..34], &vec![1; len], &segment[34..]].concat();
    frame[14] = 0x45 + words;
    let total = u16::from_be_bytes([frame[16], frame[17]]) + u16::from(words) * 4;
    frame[16..18].copy_from_slice(&total.to_be_bytes());
    frame
}

#[test]
fn segments_with_options_match_unless_they_open_a_connection() {
    let fixture = or_skip!(Fixture::new());
    let maps = &fixture.maps;
    let listener = SocketAddrV4::new(ADDRESS, 81);
    maps.add_port(listener, TCP).unwrap();
    for words in 1..=10 {
        for destination in [STREAMS, listener] {
            for flags in FLAGS {
                let segment = with_options(&segment_with(flags, destination), words);
                fixture.assert_verdict(&segment, OURS, "of a connection");
                for len in [14, 34, 54, segment.len() - 1] {
                    fixture.assert_verdict(&segment[..len], Verdict::Pass, "cut off");
                }
            }
            for flags in OPENING {
                let segment = with_options(&segment_with(flags, destination), words);
                fixture.assert_verdict(&segment, Verdict::Pass, "a new connection");
            }
        }
    }
    let segment = with_options(&segment_to(STREAMS, b"GET /"), 3);
    fixture.assert_verdict(&segment, OURS, "payload");
    let changed = |offset: usize, value: u8, what: &str| {
        let mut other = segment.clone();
        other[offset] = value;
        fixture.assert_verdict(&other, Verdict::Pass, what);
    };
    changed(14, 0x44, "no room for a header");
    changed(14, 0x58, "another version");
    changed(20, 0x20, "a fragment");
    changed(23, UDP, "a datagram");
    changed(26, 127, "from loopback");
    changed(29, 201, "another peer");
    changed(33, 2, "to another address");
    changed(47, segment[47] ^ 1, "another port of the peer's");
    changed(49, segment[49] ^ 2, "another port of ours");

    let ack = with_options(&segment_with(0x10, listener), 1);
    maps.add_exemption(listener, PEER, TCP).unwrap();
    maps.port_has_exemptions(listener, TCP).unwrap();
    fixture.assert_verdict(&ack, Verdict::Pass, "the kernel's");
    let long = with_options(&segment_to(STREAMS, &[0; FRAME_CAPACITY as usize]), 1);
    fixture.assert_verdict(&long, Verdict::Pass, "too long for a buffer");
}

/// FIN, SYN, RST, PSH, ACK, ECE and CWR, as they come together.
const FLAGS: [u8; 10] = [0x10, 0x18, 0x11, 0x12, 0x04, 0x14, 0x06, 0x00, 0x01, 0x52];
/// A SYN alone, also with ECN, and with FIN, which begins no connection anywhere.
const OPENING: [u8; 3] = [0x02, 0xc2, 0x03];

#[test]
fn exempt_connections_are_the_kernels() {
    let fixture = or_skip!(Fixture::new());
    let maps = &fixture.maps;
    let port = |number| SocketAddrV4::new(ADDRESS, number);
    // The second has the slot of the first, which is found in the map then.
    for listener in [port(81), port(81 + 256)] {
        maps.add_port(listener, TCP).unwrap();
    }
    for listener in [port(81), port(81 + 256)] {
        maps.add_exemption(listener, PEER, TCP).unwrap();
        let ack = segment_with(0x10, listener);
        fixture.assert_verdict(&ack, OURS, "nobody looks for exemptions");
        maps.port_has_exemptions(listener, TCP).unwrap();
        for flags in FLAGS {
            let segment = segment_with(flags, listener);
            fixture.assert_verdict(&segment, Verdict::Pass, "of the connection");
        }
        for flags in OPENING {
            fixture.assert_verdict(&segment_with(flags, listener), OURS, "a new connection");
        }
        let mut other = ack.clone();
        other[35] ^= 1;
        fixture.assert_verdict(&other, OURS, "another port of the peer's");
        other = ack.clone();
        other[29] ^= 1;
        fixture.assert_verdict(&other, OURS, "another peer");
        fixture.assert_verdict(
            &frame_between(PEER, listener, b"x"),
            Verdict::Pass,
            "a datagram",
        );
        let short = &ack[..47];
        fixture.assert_verdict(short, Verdict::Pass, "cut off before its flags");
    }
    // The flow of another connection beside exempt ones, as after a port that was for everybody.
    maps.add_flow(port(81), PEER, TCP).unwrap();
    fixture.assert_verdict(&segment_with(0x10, port(81)), OURS, "ours again");
    maps.add_exemption(port(81), PEER, TCP).unwrap();

    maps.remove_exemption(port(81), PEER, TCP).unwrap();
    fixture.assert_verdict(&segment_with(0x10, port(81)), OURS, "no longer exempt");
    maps.add_exemption(port(81), PEER, TCP).unwrap();
    maps.add_port(port(81), TCP).unwrap();
    fixture.assert_verdict(&segment_with(0x10, port(81)), OURS, "nobody looks");
    maps.port_has_exemptions(port(81), TCP).unwrap();
    maps.remove_port(port(81), TCP).unwrap();
    for flags in FLAGS.into_iter().chain(OPENING) {
        let segment = segment_with(flags, port(81));
        fixture.assert_verdict(&segment, Verdict::Pass, "nobody listens");
    }
}

/// Of those that were merged before they came here.
#[test]
fn long_segments_match_if_they_come_in_pieces() {
    let long = segment_to(STREAMS, &[7; FRAME_CAPACITY as usize]);
    for (in_pieces, expected) in [(false, Verdict::Pass), (true, OURS)] {
        let on_match = OnMatch::Verdict(OURS);
        let fixture = or_skip!(Fixture::with_pieces(FRAME_CAPACITY, on_match, in_pieces));
        fixture.assert_verdict(&long, expected, "longer than a buffer");
        let datagram = frame_between(PEER, OPEN, &[7; FRAME_CAPACITY as usize]);
        fixture.assert_verdict(&datagram, Verdict::Pass, "a datagram longer than a buffer");
    }
}

/// The program then finds the length of a frame in another way.
#[test]
fn processes_without_cap_perfmon_get_the_same_verdicts() {
    let body = || -> Result<(), Skip> {
        drop_capabilities(&[CAP_SYS_ADMIN, CAP_PERFMON]);
        let maps = create_maps()?;
        maps.add_port(OPEN, UDP).unwrap();
        maps.add_flow(CONNECTED, PEER, UDP).unwrap();
        let program = Program::load(
            &maps,
            MAC,
            Capacity {
                frame_bytes: FRAME_CAPACITY,
                in_pieces: false,
            },
            OnMatch::Verdict(OURS),
            Hidden::Nothing,
        )
        .map_err(|error| match error.errno() {
            Some(libc::EACCES | libc::EPERM) => Skip::new("needs CAP_PERFMON before Linux 5.18"),
            _ => panic!("{error}"),
        })?;
        let fixture = Fixture { maps, program };
        fixture.assert_verdict(&our_frame(), OURS, "any source");
        fixture.assert_verdict(
            &frame_between(PEER, CONNECTED, b"x"),
            OURS,
            "the exact flow",
        );
        for (what, frame) in foreign_frames() {
            fixture.assert_verdict(&frame, Verdict::Pass, what);
        }
        let largest = vec![0x5a; FRAME_CAPACITY as usize - UDP_IN_IPV4];
        let frame = frame_between(PEER, OPEN, &largest);
        fixture.assert_verdict(&frame, OURS, "as long as a buffer");
        fixture.assert_verdict(&[frame, vec![0]].concat(), Verdict::Pass, "one byte more");
        Ok(())
    };
    // Capabilities are a property of a thread.
    let result = thread::spawn(body)
        .join()
        .unwrap_or_else(|panic| resume_unwind(panic));
    or_skip!(result);
}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// Takes capabilities from the effective set of the calling thread: capset(2), which libc does not
/// wrap.
fn drop_capabilities(capabilities: &[u32]) {
    const VERSION_3: u32 = 0x2008_0522;
    let mut header = [VERSION_3, 0];
    // Effective, permitted and inheritable: the lower 32 capabilities, then the upper ones.
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: the kernel writes two times three words.
    let result = unsafe { libc::syscall(libc::SYS_capget, &raw mut header, &raw mut sets) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    for capability in capabilities {
        sets[(capability / 32) as usize][0] &= !(1 << (capability % 32));
    }
    // SAFETY: the kernel reads two times three words.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, &raw mut sets) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn changes_of_the_maps_take_effect_at_once() {
    let fixture = or_skip!(Fixture::new());
    let port = SocketAddrV4::new(ADDRESS, 7_000);
    let frame = frame_between(PEER, port, b"x");
    let maps = &fixture.maps;

    fixture.assert_verdict(&frame, Verdict::Pass, "no port");
    assert!(!maps.has_port(port, UDP).unwrap());
    maps.add_port(port, UDP).unwrap();
    fixture.assert_verdict(&frame, OURS, "port added");
    assert!(maps.has_port(port, UDP).unwrap());
    maps.add_flow(port, PEER, UDP).unwrap();
    maps.remove_port(port, UDP).unwrap();
    assert!(!maps.has_port(port, UDP).unwrap());
    fixture.assert_verdict(&frame, OURS, "port removed, flow left");
    maps.remove_flow(port, PEER, UDP).unwrap();
    fixture.assert_verdict(&frame, Verdict::Pass, "flow removed");
    maps.add_flow(port, PEER, UDP).unwrap();
    fixture.assert_verdict(&frame, OURS, "flow added");

    let errno = |result: Result<(), BpfError>| result.unwrap_err().errno();
    assert_eq!(errno(maps.remove_port(port, UDP)), Some(libc::ENOENT));
    maps.remove_flow(port, PEER, UDP).unwrap();
    assert_eq!(errno(maps.remove_flow(port, PEER, UDP)), Some(libc::ENOENT));
}

#[test]
fn full_maps_refuse_more() {
    let maps = or_skip!(create_maps());
    let port = |number| SocketAddrV4::new(ADDRESS, number);
    for number in 1..=64 {
        maps.add_port(port(number), UDP).unwrap();
    }
    let error = maps.add_port(port(65), UDP).unwrap_err();
    assert_eq!(error.errno(), Some(libc::E2BIG), "{error}");
}

#[test]
fn matches_are_redirected_only_to_a_queue_with_a_socket() {
    let fixture = or_skip!(Fixture::with(FRAME_CAPACITY, OnMatch::Redirect));
    fixture.assert_verdict(&our_frame(), Verdict::Pass, "no socket");

    let socket = or_skip!(xdp_socket());
    fixture.maps.set_xsk(1, socket.as_raw_fd()).unwrap();
    fixture.assert_verdict(&our_frame(), Verdict::Pass, "socket of another queue");
    // Test frames come in through queue 0.
    fixture.maps.set_xsk(0, socket.as_raw_fd()).unwrap();
    fixture.assert_verdict(&our_frame(), Verdict::Redirect, "socket of this queue");
    fixture.assert_verdict(
        &frame_between(PEER, CONNECTED, b"x"),
        Verdict::Redirect,
        "exact flow",
    );
    fixture.assert_verdict(&changed(23, &[6]), Verdict::Pass, "not ours");

    // The kernel takes the socket out of the map with its last descriptor. A child of another test
    // may hold a copy until it executes its program.
    drop(socket);
    let deadline = Instant::now() + Duration::from_secs(60);
    while fixture.program.test_run(&our_frame()).unwrap() != Verdict::Pass {
        assert!(
            Instant::now() < deadline,
            "the socket is closed, and still in the map"
        );
        thread::sleep(Duration::from_millis(1));
    }

    let too_high = fixture.maps.set_xsk(u32::MAX, 0).unwrap_err();
    assert_eq!(too_high.errno(), Some(libc::E2BIG), "{too_high}");
    let no_socket = fixture
        .maps
        .set_xsk(0, std::io::stderr().as_raw_fd())
        .unwrap_err();
    assert!(
        no_socket.to_string().contains("AF_XDP socket"),
        "{no_socket}"
    );
}

/// An AF_XDP socket that has just what the kernel asks of one in a map: a fill ring.
fn xdp_socket() -> Result<OwnedFd, Skip> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(Skip::new(format!(
            "no AF_XDP: {}",
            std::io::Error::last_os_error()
        )));
    }
    // SAFETY: the descriptor is new and ours alone.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    let entries: libc::c_int = 64;
    // SAFETY: the option's value is an int and its length that of an int.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_XDP,
            libc::XDP_UMEM_FILL_RING,
            (&raw const entries).cast(),
            libc::socklen_t::try_from(size_of_val(&entries)).unwrap(),
        )
    };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    Ok(socket)
}

#[test]
fn descriptors_are_closed_on_exec() {
    let fixture = or_skip!(Fixture::new());
    let fd = fixture.program.fd();
    // SAFETY: F_GETFD touches no memory.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    assert_eq!(flags, libc::FD_CLOEXEC, "descriptor {fd}");
}

#[test]
fn link_holds_the_interface_until_it_is_dropped() {
    let fixture = or_skip!(Fixture::with(FRAME_CAPACITY, OnMatch::Redirect));
    let pair = or_skip!(Namespaces::pair());
    let index = interface_index(&pair.a.ip(&["-o", "link", "show", "dev", "va"]).unwrap());
    let is_attached = || {
        pair.a
            .ip(&["link", "show", "dev", "va"])
            .unwrap()
            .contains("prog/xdp")
    };

    pair.a.enter(|| {
        for mode in [AttachMode::Native, AttachMode::Generic] {
            let link = XdpLink::attach(&fixture.program, index, mode).unwrap();
            assert!(is_attached(), "{mode:?}");
            for second_mode in [AttachMode::Native, AttachMode::Generic] {
                let second = XdpLink::attach(&fixture.program, index, second_mode);
                let Err(AttachError::Busy(error)) = second else {
                    panic!("{mode:?}, then {second_mode:?}: {second:?}");
                };
                assert!(
                    matches!(error.errno(), Some(libc::EBUSY | libc::EEXIST)),
                    "{error}"
                );
            }
            drop(link);
            // A child that another test forks has the link, too, until it executes its program.
            let gone = eventually(Duration::from_secs(60), || !is_attached());
            assert!(gone, "{mode:?} dropped");
        }
    });
}

#[test]
fn attaching_says_why_it_failed() {
    let fixture = or_skip!(Fixture::with(FRAME_CAPACITY, OnMatch::Redirect));
    // More than one buffer a packet: the veth driver declines.
    let pair = or_skip!(Namespaces::new().mtu(9_000).create());
    let index = interface_index(&pair.a.ip(&["-o", "link", "show", "dev", "va"]).unwrap());
    pair.a.enter(|| {
        let native = XdpLink::attach(&fixture.program, index, AttachMode::Native);
        let Err(AttachError::Refused(error)) = native else {
            panic!("{native:?}")
        };
        assert_eq!(error.errno(), Some(libc::ERANGE), "{error}");
        XdpLink::attach(&fixture.program, index, AttachMode::Generic).unwrap();

        let missing = XdpLink::attach(&fixture.program, index + 1_000, AttachMode::Generic);
        let Err(error @ AttachError::Unsupported(_)) = missing else {
            panic!("{missing:?}")
        };
        assert!(error.to_string().contains("no such interface"), "{error}");
    });
}

/// The number that `ip -o link show` puts first.
fn interface_index(listing: &str) -> u32 {
    listing.split(':').next().unwrap().trim().parse().unwrap()
}
