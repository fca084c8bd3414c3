//! The XDP program and IPv6, run by the kernel on one frame at a time (`BPF_PROG_TEST_RUN`).

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv6Addr, SocketAddr};

use dev_xdp::bpf::hidden::Hidden;
use dev_xdp::bpf::program::{Capacity, FlowMaps, OnMatch, Program, Verdict};
use testkit::{Skip, or_skip};
use wire::{EthernetAddresses, UdpTemplate, tcp};

const ETHERNET: EthernetAddresses = EthernetAddresses {
    source: [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee],
    destination: [0x02, 0x11, 0x22, 0x33, 0x44, 0x55],
};
const FRAME_CAPACITY: u32 = 1792;
const TCP: u8 = 6;
const UDP: u8 = 17;

const ADDRESS: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6);
/// Differs in the last octet only.
const NEIGHBOUR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 7);
/// Differs in the first half only.
const OTHER_NET: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 3, 3, 4, 5, 6);
/// Redirected from any source, connected to `PEER`, and for connections of `PEER`.
const OPEN: u16 = 12_345;
const CONNECTED: u16 = 5_000;
const STREAMS: u16 = 80;
const PEER: (Ipv6Addr, u16) = (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0xc8), 40_001);

const NEAR: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const LAST_NEAR: Ipv6Addr = Ipv6Addr::new(0xfebf, 0xffff, 0xffff, 0xffff, 0, 0, 0, 9);

/// A verdict that stands for "ours" where no AF_XDP socket is there to redirect to.
const OURS: Verdict = Verdict::Tx;

fn at(port: u16) -> SocketAddr {
    (ADDRESS, port).into()
}

fn maps() -> Result<FlowMaps, Skip> {
    FlowMaps::create(64).map_err(|error| match error.errno() {
        Some(libc::EPERM | libc::ENOSYS) => Skip::new(format!("{error}")),
        _ => panic!("{error}"),
    })
}

fn load(maps: &FlowMaps, in_pieces: bool) -> Program {
    let capacity = Capacity {
        frame_bytes: FRAME_CAPACITY,
        in_pieces,
    };
    let on_match = OnMatch::Verdict(OURS);
    Program::load(
        maps,
        ETHERNET.destination,
        capacity,
        on_match,
        Hidden::Nothing,
    )
    .unwrap()
}

/// Maps with the three ports, and a program that reads them.
fn steered(in_pieces: bool) -> Result<(FlowMaps, Program), Skip> {
    let maps = maps()?;
    maps.add_port(at(OPEN), UDP).unwrap();
    for (port, protocol) in [(CONNECTED, UDP), (STREAMS, TCP)] {
        maps.add_flow(at(port), PEER, protocol).unwrap();
    }
    for near in [NEAR, LAST_NEAR] {
        maps.add_flow(at(STREAMS), (near, 9), TCP).unwrap();
    }
    let program = load(&maps, in_pieces);
    Ok((maps, program))
}

fn datagram(
    source: impl Into<SocketAddr>,
    destination: impl Into<SocketAddr>,
    payload: &[u8],
) -> Vec<u8> {
    let template = UdpTemplate::new(ETHERNET, source, destination, 64, 0, true);
    let mut frame = vec![0; template.header_len() + payload.len()];
    template.emit_one(&mut frame, 1, payload).unwrap();
    frame
}

fn segment(
    source: impl Into<SocketAddr>,
    destination: impl Into<SocketAddr>,
    payload: &[u8],
) -> Vec<u8> {
    let template = tcp::Template::new(ETHERNET, source, destination, 64, 0, true);
    let mut frame = vec![0; tcp::Template::MAX_HEADERS_LEN + payload.len()];
    let len = template.emit(&mut frame, 1, 0, &tcp::Header::default(), [payload]);
    frame.truncate(len.unwrap());
    frame
}

fn ours() -> Vec<u8> {
    datagram(PEER, at(OPEN), b"market data")
}

/// `ours` with the bytes at `offset` replaced.
fn changed(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut frame = ours();
    frame[offset..offset + bytes.len()].copy_from_slice(bytes);
    frame
}

/// `ours` with an extension header of eight bytes behind the IPv6 header.
fn extended(kind: u8) -> Vec<u8> {
    let frame = ours();
    let mut frame = [&frame[..54], &[UDP, 0, 0, 0, 0, 0, 0, 0], &frame[54..]].concat();
    frame[19] += 8;
    frame[20] = kind;
    frame
}

fn from(source: [u16; 8]) -> Vec<u8> {
    datagram((Ipv6Addr::from(source), 9), at(OPEN), b"x")
}

#[track_caller]
fn assert_verdicts(program: &Program, cases: Vec<(&str, Vec<u8>)>, expected: Verdict) {
    for (what, frame) in cases {
        assert_eq!(
            program.test_run(&frame).unwrap(),
            expected,
            "{what}: {frame:02x?}"
        );
    }
}

#[test]
fn packets_of_our_sockets_match() {
    let (_maps, program) = or_skip!(steered(false));
    let cases = vec![
        ("a datagram", ours()),
        ("from a stranger", from([0x2001, 0xdb8, 9, 9, 9, 9, 9, 9])),
        ("from a neighbour", datagram((NEIGHBOUR, 9), at(OPEN), b"x")),
        (
            "from another network",
            datagram((OTHER_NET, 9), at(OPEN), b"x"),
        ),
        (
            "from below link-local addresses",
            from([0xfe7f, 0xffff, 0, 0, 0, 0, 0, 9]),
        ),
        (
            "from above link-local addresses",
            from([0xfec0, 0, 0, 0, 0, 0, 0, 9]),
        ),
        (
            "from a link-local address",
            datagram((NEAR, 9), at(OPEN), b"x"),
        ),
        (
            "from the last link-local address",
            datagram((LAST_NEAR, 9), at(OPEN), b"x"),
        ),
        ("empty", datagram(PEER, at(OPEN), b"")),
        ("Ethernet padding", [ours(), vec![0; 7]].concat()),
        (
            "traffic class and flow label",
            changed(14, &[0x6f, 0xff, 0xff, 0xff]),
        ),
        ("the exact flow", datagram(PEER, at(CONNECTED), b"x")),
        ("a segment without payload", segment(PEER, at(STREAMS), b"")),
        ("a segment", segment(PEER, at(STREAMS), b"GET /")),
        (
            "a segment from a link-local address",
            segment((NEAR, 9), at(STREAMS), b"x"),
        ),
        (
            "a segment from the last link-local address",
            segment((LAST_NEAR, 9), at(STREAMS), b"x"),
        ),
    ];
    assert_verdicts(&program, cases, OURS);
}

#[test]
fn everything_else_passes_to_the_kernel() {
    let (_maps, program) = or_skip!(steered(false));
    let mut half_a_header = segment(PEER, at(STREAMS), b"");
    half_a_header[18..20].copy_from_slice(&19_u16.to_be_bytes());
    let mut neighbour_discovery = changed(20, &[58]);
    neighbour_discovery[54..56].copy_from_slice(&[135, 0]);
    let long = [7; FRAME_CAPACITY as usize];
    let cases = vec![
        ("other MAC", changed(5, &[0x54])),
        ("multicast of IPv6", changed(0, &[0x33, 0x33, 0, 0, 0, 1])),
        (
            "multicast of IPv4",
            changed(0, &[0x01, 0x00, 0x5e, 0, 0, 1]),
        ),
        ("IPv4 EtherType", changed(12, &[0x08, 0x00])),
        ("other EtherType", changed(12, &[0x86, 0xde])),
        ("version 5", changed(14, &[0x5f])),
        ("version 7", changed(14, &[0x70])),
        ("hop-by-hop options", extended(0)),
        ("routing", extended(43)),
        ("fragment", extended(44)),
        ("destination options", extended(60)),
        ("no next header", changed(20, &[59])),
        ("neighbour discovery", neighbour_discovery),
        ("UDP-Lite", changed(20, &[136])),
        ("TCP to a port of UDP's", segment(PEER, at(OPEN), b"x")),
        ("UDP to a port of TCP's", datagram(PEER, at(STREAMS), b"x")),
        ("length one more than the frame", changed(18, &[0, 20])),
        ("length one less than UDP says", changed(18, &[0, 18])),
        ("length of a jumbogram", changed(18, &[0, 0])),
        ("length 7", changed(18, &[0, 7])),
        ("length 65535", changed(18, &[0xff, 0xff])),
        ("UDP length one more", changed(58, &[0, 20])),
        ("UDP length one less", changed(58, &[0, 18])),
        ("UDP length 0", changed(58, &[0, 0])),
        ("half a TCP header", half_a_header),
        ("other port, same low byte", changed(56, &[0x31, 0x39])),
        ("other port, same high byte", changed(56, &[0x30, 0x38])),
        ("other address", datagram(PEER, (NEIGHBOUR, OPEN), b"x")),
        ("other network", datagram(PEER, (OTHER_NET, OPEN), b"x")),
        ("our address as the source", datagram(at(9), at(OPEN), b"x")),
        ("from the unspecified address", from([0; 8])),
        ("from loopback", from([0, 0, 0, 0, 0, 0, 0, 1])),
        (
            "from a mapped address",
            from([0, 0, 0, 0, 0, 0xffff, 0xc000, 0x201]),
        ),
        ("from a group", from([0xff02, 0, 0, 0, 0, 0, 0, 1])),
        ("from any group", from([0xff00, 0, 0, 0, 0, 0, 0, 1])),
        (
            "other peer port",
            datagram((PEER.0, 40_002), at(CONNECTED), b"x"),
        ),
        (
            "other peer",
            datagram((NEIGHBOUR, PEER.1), at(CONNECTED), b"x"),
        ),
        (
            "a connection's other peer",
            segment((NEIGHBOUR, PEER.1), at(STREAMS), b"x"),
        ),
        ("longer than a frame", datagram(PEER, at(OPEN), &long)),
        ("a longer segment", segment(PEER, at(STREAMS), &long)),
    ];
    assert_verdicts(&program, cases, Verdict::Pass);
    for len in 14..ours().len() {
        let frame = ours()[..len].to_vec();
        assert_verdicts(&program, vec![("truncated", frame)], Verdict::Pass);
    }
}

/// A datagram to a group, with a destination in the Ethernet header.
fn group_frame(group: Ipv6Addr, mac: [u8; 6]) -> Vec<u8> {
    let mut frame = datagram(PEER, (group, OPEN), b"x");
    frame[..6].copy_from_slice(&mac);
    frame
}

#[test]
fn frames_of_joined_groups_match_with_the_groups_ethernet_address() {
    let maps = or_skip!(maps());
    let program = load(&maps, false);
    let joined = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0x0102, 0x0304);
    let near = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    for group in [joined, near] {
        maps.add_port((group, OPEN), UDP).unwrap();
    }
    let of_joined = [0x33, 0x33, 1, 2, 3, 4];
    let from_near = {
        let mut frame = datagram((NEAR, 9), (near, OPEN), b"x");
        frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
        frame
    };
    let cases = vec![
        ("a group", group_frame(joined, of_joined)),
        ("to us alone", group_frame(joined, ETHERNET.destination)),
        (
            "a link-local group",
            group_frame(near, [0x33, 0x33, 0, 0, 0, 1]),
        ),
        ("from a link-local address", from_near),
    ];
    assert_verdicts(&program, cases, OURS);
    let other = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0x0102, 0x0304);
    let mut of_ipv4 = group_frame(joined, of_joined);
    of_ipv4[12..14].copy_from_slice(&[0x08, 0x00]);
    let mut other_port = group_frame(joined, of_joined);
    other_port[57] ^= 1;
    let mut cases = vec![
        (
            "a group with the same Ethernet address",
            group_frame(other, of_joined),
        ),
        ("another EtherType", of_ipv4),
        ("another port", other_port),
        (
            "IPv4's address for groups",
            group_frame(joined, [0x01, 0, 0x5e, 2, 3, 4]),
        ),
        ("everybody's", group_frame(joined, [0xff; 6])),
        ("a single address in it", {
            let mut frame = ours();
            frame[..6].copy_from_slice(&[0x33, 0x33, 0, 5, 0, 6]);
            frame
        }),
    ];
    for byte in 1..6 {
        let mut mac = of_joined;
        mac[byte] ^= 0x80;
        cases.push(("another Ethernet address", group_frame(joined, mac)));
    }
    assert_verdicts(&program, cases, Verdict::Pass);
    for len in 14..group_frame(joined, of_joined).len() {
        let frame = group_frame(joined, of_joined)[..len].to_vec();
        assert_verdicts(&program, vec![("truncated", frame)], Verdict::Pass);
    }
}

/// Of those that were merged before they came here.
#[test]
fn long_segments_match_if_they_come_in_pieces() {
    let (_maps, program) = or_skip!(steered(true));
    let long = [7; FRAME_CAPACITY as usize];
    assert_verdicts(
        &program,
        vec![("a segment", segment(PEER, at(STREAMS), &long))],
        OURS,
    );
    let datagram = vec![("a datagram", datagram(PEER, at(OPEN), &long))];
    assert_verdicts(&program, datagram, Verdict::Pass);
}

/// The ports of both families have slots and tables of their own, and share the slot of their lower
/// byte with others.
#[test]
fn ports_come_and_go_one_by_one() {
    let maps = or_skip!(maps());
    let program = load(&maps, false);
    let v4 = SocketAddr::from(([192, 0, 2, 1], OPEN));
    // Two more in the slot: another port, and the same port of another address.
    let ports = [
        at(OPEN),
        at(OPEN + 256),
        (NEIGHBOUR, OPEN).into(),
        (OTHER_NET, OPEN).into(),
        v4,
    ];
    let frame_to = |to: SocketAddr| match to {
        SocketAddr::V4(_) => datagram(SocketAddr::from(([192, 0, 2, 9], 9)), to, b"x"),
        SocketAddr::V6(_) => datagram(PEER, to, b"x"),
    };
    let check = |present: &[SocketAddr]| {
        for port in ports {
            let expected = if present.contains(&port) {
                OURS
            } else {
                Verdict::Pass
            };
            assert_verdicts(&program, vec![("a port", frame_to(port))], expected);
            let is_there = maps.has_port(port, UDP).unwrap();
            assert_eq!(is_there, present.contains(&port));
        }
    };
    for count in 0..=ports.len() {
        check(&ports[..count]);
        if let Some(next) = ports.get(count) {
            maps.add_port(*next, UDP).unwrap();
        }
    }
    for count in 0..ports.len() {
        maps.remove_port(ports[count], UDP).unwrap();
        check(&ports[count + 1..]);
    }
    let gone = maps.remove_port(ports[0], UDP).unwrap_err();
    assert_eq!(gone.errno(), Some(libc::ENOENT));
}

#[test]
fn exempt_connections_are_the_kernels() {
    let maps = or_skip!(maps());
    let program = load(&maps, false);
    let with_flags = |destination: (Ipv6Addr, u16), flags: u8| {
        let mut segment = segment(PEER, destination, b"");
        segment[67] = flags;
        program.test_run(&segment).unwrap()
    };
    // The second has the slot of the first, which is found in the map then.
    let listeners = [(ADDRESS, 81), (NEIGHBOUR, 81)];
    for listener in listeners {
        maps.add_port(listener, TCP).unwrap();
    }
    for listener in listeners {
        maps.add_exemption(listener, PEER, TCP).unwrap();
        assert_eq!(with_flags(listener, 0x10), OURS);
        maps.port_has_exemptions(listener, TCP).unwrap();
        for flags in [0x10, 0x18, 0x11, 0x12, 0x04, 0x14, 0x06, 0x00, 0x01] {
            assert_eq!(with_flags(listener, flags), Verdict::Pass, "{flags:#x}");
        }
        for flags in [0x02, 0xc2] {
            assert_eq!(with_flags(listener, flags), OURS, "{flags:#x}");
        }
        let other = segment((PEER.0, PEER.1 + 1), listener, b"x");
        assert_eq!(program.test_run(&other).unwrap(), OURS);
        maps.remove_exemption(listener, PEER, TCP).unwrap();
        assert_eq!(with_flags(listener, 0x10), OURS);
        maps.add_exemption(listener, PEER, TCP).unwrap();
        maps.remove_port(listener, TCP).unwrap();
        assert_eq!(with_flags(listener, 0x10), Verdict::Pass);
        assert_eq!(with_flags(listener, 0x02), Verdict::Pass);
    }
}
