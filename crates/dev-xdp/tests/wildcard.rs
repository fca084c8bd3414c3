//! Ports that are redirected at any address of the interface, by the XDP program, which the kernel
//! runs on one frame at a time.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dev_xdp::bpf::hidden::Hidden;
use dev_xdp::bpf::program::{Capacity, FlowMaps, OnMatch, Program, Verdict};
use testkit::{Skip, or_skip};
use wire::{EthernetAddresses, UdpTemplate, tcp};

const ETHERNET: EthernetAddresses = EthernetAddresses {
    source: [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee],
    destination: [0x02, 0x11, 0x22, 0x33, 0x44, 0x55],
};
const TCP: u8 = 6;
const UDP: u8 = 17;
const PORT: u16 = 5353;

/// Of the two versions of IP: a peer, addresses of the interface of which the last two share a
/// slot, and one that would have it, too.
struct Version {
    peer: &'static str,
    own: [&'static str; 3],
    foreign: &'static str,
    /// One whose slot is empty.
    alone: &'static str,
}

const V4: Version = Version {
    peer: "192.0.2.200",
    own: ["192.0.2.1", "192.0.2.7", "198.51.100.7"],
    foreign: "203.0.113.7",
    alone: "192.0.2.9",
};
const V6: Version = Version {
    peer: "2001:db8::c8",
    own: ["2001:db8::1", "2001:db8::7", "2001:db8:1::7"],
    foreign: "2001:db8:2::7",
    alone: "2001:db8::9",
};

struct Fixture {
    maps: FlowMaps,
    program: Program,
    peer: IpAddr,
}

impl Fixture {
    fn new(version: &Version) -> Result<Self, Skip> {
        let maps = FlowMaps::create(64).map_err(|error| match error.errno() {
            Some(libc::EPERM | libc::ENOSYS) => Skip::new(format!("{error}")),
            _ => panic!("{error}"),
        })?;
        let capacity = Capacity {
            frame_bytes: 1792,
            in_pieces: false,
        };
        let on_match = OnMatch::Verdict(Verdict::Tx);
        let mac = ETHERNET.destination;
        let program = Program::load(&maps, mac, capacity, on_match, Hidden::Nothing).unwrap();
        let peer = ip(version.peer);
        Ok(Self {
            maps,
            program,
            peer,
        })
    }

    /// Whether the program takes a packet: a datagram, or a segment that opens a connection.
    fn takes(&self, protocol: u8, address: &str, port: u16) -> bool {
        if protocol == TCP {
            let syn = self.segment(address, port, tcp::Flags::SYN);
            return self.takes_frame(&syn);
        }
        let (source, destination): (SocketAddr, SocketAddr) =
            ((self.peer, 9).into(), (ip(address), port).into());
        let template = UdpTemplate::new(ETHERNET, source, destination, 64, 0, true);
        let mut frame = vec![0; template.header_len() + 1];
        template.emit_one(&mut frame, 1, b"x").unwrap();
        self.takes_frame(&frame)
    }

    fn segment(&self, address: &str, port: u16, flags: tcp::Flags) -> Vec<u8> {
        let template =
            tcp::Template::new(ETHERNET, (self.peer, 9), (ip(address), port), 64, 0, true);
        let header = tcp::Header {
            flags,
            ..tcp::Header::default()
        };
        let mut frame = vec![0; 128];
        let len = template.emit(&mut frame, 1, 0, &header, []).unwrap();
        frame.truncate(len);
        frame
    }

    fn takes_frame(&self, frame: &[u8]) -> bool {
        self.program.test_run(frame).unwrap() == Verdict::Tx
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at_any_address_of_the_interface(version: &Version, protocol: u8) -> Result<(), Skip> {
    let fixture = Fixture::new(version)?;
    let maps = &fixture.maps;
    let of_v6 = fixture.peer.is_ipv6();
    let takes = |address: &str, port| fixture.takes(protocol, address, port);
    let [first, second, third] = version.own;
    maps.add_wildcard(PORT, of_v6, protocol).unwrap();
    assert!(!takes(first, PORT), "no address of the interface");
    for address in version.own {
        maps.add_address(ip(address)).unwrap();
    }
    for address in version.own {
        assert!(takes(address, PORT), "{address}");
        // In either byte.
        for other in [PORT ^ 1, PORT ^ 0x100] {
            assert!(!takes(address, other), "{address} {other}");
        }
        assert!(!fixture.takes(TCP + UDP - protocol, address, PORT));
    }
    assert!(!takes(version.foreign, PORT), "to be forwarded");
    assert!(!takes(version.alone, PORT), "to be forwarded");

    maps.remove_address(ip(third)).unwrap();
    assert!(takes(second, PORT) && !takes(third, PORT));
    maps.add_address(ip(third)).unwrap();
    maps.remove_address(ip(second)).unwrap();
    assert!(!takes(second, PORT) && takes(third, PORT));

    maps.add_wildcard(PORT + 1, of_v6, protocol).unwrap();
    maps.remove_wildcard(PORT, of_v6, protocol).unwrap();
    assert!(!takes(first, PORT) && takes(first, PORT + 1));
    maps.remove_wildcard(PORT, of_v6, protocol).unwrap();
    Ok(())
}

#[test]
fn a_port_at_any_address_of_the_interface() {
    for protocol in [UDP, TCP] {
        or_skip!(at_any_address_of_the_interface(&V4, protocol));
        or_skip!(at_any_address_of_the_interface(&V6, protocol));
    }
}

/// A frame that is for others is not for who listens at any address: to all on the link, to a
/// network, to a group.
#[test]
fn no_broadcasts_and_groups() {
    let fixture = or_skip!(Fixture::new(&V4));
    let maps = &fixture.maps;
    for address in V4.own {
        maps.add_address(ip(address)).unwrap();
    }
    maps.add_wildcard(PORT, false, TCP).unwrap();
    for address in ["255.255.255.255", "192.0.2.255", "192.0.2.0", "224.0.0.1"] {
        assert!(!fixture.takes(TCP, address, PORT), "{address}");
    }
    let mut to_all = fixture.segment(V4.own[0], PORT, tcp::Flags::SYN);
    assert!(fixture.takes_frame(&to_all));
    to_all[..6].fill(0xff);
    assert!(!fixture.takes_frame(&to_all));
}

#[test]
fn versions_and_protocols_have_ports_of_their_own() {
    for (version, other) in [(&V4, &V6), (&V6, &V4)] {
        for protocol in [UDP, TCP] {
            let fixture = or_skip!(Fixture::new(version));
            let of_v6 = fixture.peer.is_ipv6();
            for address in version.own.iter().chain(&other.own) {
                fixture.maps.add_address(ip(address)).unwrap();
            }
            let takes = || fixture.takes(protocol, version.own[0], PORT);
            let maps = &fixture.maps;
            maps.add_wildcard(PORT, !of_v6, protocol).unwrap();
            maps.add_wildcard(PORT, of_v6, TCP + UDP - protocol)
                .unwrap();
            assert!(!takes());
            maps.add_wildcard(PORT, of_v6, protocol).unwrap();
            assert!(takes());
        }
    }
}

/// What is in the way of none: ports at one address, flows of one peer, exemptions from a port of
/// the same number.
fn beside_others(version: &Version, protocol: u8) -> Result<(), Skip> {
    let fixture = Fixture::new(version)?;
    let maps = &fixture.maps;
    let of_v6 = fixture.peer.is_ipv6();
    let takes = |address: &str, port| fixture.takes(protocol, address, port);
    let [first, second, _] = version.own;
    for address in version.own {
        maps.add_address(ip(address)).unwrap();
    }
    // With the same lower byte, so that they have the slot of it.
    let (wildcard, at_one, connected) = (PORT, PORT + 0x100, PORT + 0x200);
    maps.add_port((ip(first), at_one), protocol).unwrap();
    maps.add_flow((ip(first), connected), (fixture.peer, 9), protocol)
        .unwrap();
    maps.add_wildcard(wildcard, of_v6, protocol).unwrap();
    maps.add_wildcard(80, of_v6, protocol).unwrap();
    for port in [wildcard, at_one, connected] {
        assert!(takes(first, port), "{port}");
    }
    assert!(takes(second, wildcard));
    assert!(!takes(second, at_one) && !takes(second, connected));
    // A foreign address at one port, as a group is.
    maps.add_port((ip(version.foreign), wildcard), protocol)
        .unwrap();
    assert!(takes(version.foreign, wildcard) && takes(first, wildcard));

    // Another protocol's at the port of the same number.
    let other = TCP + UDP - protocol;
    assert!(!fixture.takes(other, first, 80));
    maps.add_port((ip(first), 80), other).unwrap();
    assert!(fixture.takes(other, first, 80) && takes(first, 80));
    maps.add_exemption((ip(first), 80), (fixture.peer, 9), other)
        .unwrap();
    maps.port_has_exemptions((ip(first), 80), other).unwrap();
    assert_eq!(fixture.takes(other, first, 80), other == TCP);
    assert!(takes(first, 80));
    Ok(())
}

#[test]
fn beside_ports_flows_and_exemptions() {
    for protocol in [UDP, TCP] {
        or_skip!(beside_others(&V4, protocol));
        or_skip!(beside_others(&V6, protocol));
    }
}

/// Connections that are the kernel's although their port is ours at any address.
fn exempt_connections(version: &Version) -> Result<(), Skip> {
    let fixture = Fixture::new(version)?;
    let maps = &fixture.maps;
    let of_v6 = fixture.peer.is_ipv6();
    for address in version.own {
        maps.add_address(ip(address)).unwrap();
    }
    let any: SocketAddr = match of_v6 {
        true => (Ipv6Addr::UNSPECIFIED, PORT).into(),
        false => (Ipv4Addr::UNSPECIFIED, PORT).into(),
    };
    let takes = |address: &str, flags| fixture.takes_frame(&fixture.segment(address, PORT, flags));
    let (syn, ack) = (tcp::Flags::SYN, tcp::Flags::ACK);
    maps.add_wildcard(PORT, of_v6, TCP).unwrap();
    // The last ones share a slot: one is found by it, the other is not.
    for exempt in version.own {
        let ends = ((ip(exempt), PORT), (fixture.peer, 9));
        maps.add_exemption(ends.0, ends.1, TCP).unwrap();
        assert!(takes(exempt, ack), "nobody looks for exemptions");
        maps.port_has_exemptions(any, TCP).unwrap();
        for address in version.own {
            assert!(takes(address, syn), "{address}: another connection");
            assert_eq!(takes(address, ack), address != exempt, "{address}");
            let of_reset = tcp::Flags::RST | ack;
            assert_eq!(takes(address, of_reset), address != exempt, "{address}");
        }
        assert!(!takes(version.foreign, ack) && !takes(version.foreign, syn));
        maps.remove_exemption(ends.0, ends.1, TCP).unwrap();
        assert!(takes(exempt, ack));
        maps.add_wildcard(PORT, of_v6, TCP).unwrap();
        assert!(takes(exempt, ack));
    }
    Ok(())
}

#[test]
fn exempt_connections_are_the_kernels() {
    or_skip!(exempt_connections(&V4));
    or_skip!(exempt_connections(&V6));
}

/// The same segment with a word of options in its IP header, such as does nothing.
fn with_options(segment: &[u8]) -> Vec<u8> {
    let mut frame = segment.to_vec();
    frame.splice(34..34, [1, 1, 1, 0]);
    frame[14] += 1;
    let len = u16::from_be_bytes([frame[16], frame[17]]) + 4;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame
}

#[test]
fn segments_with_options_unless_they_open_a_connection() {
    let fixture = or_skip!(Fixture::new(&V4));
    let maps = &fixture.maps;
    for address in V4.own {
        maps.add_address(ip(address)).unwrap();
    }
    let takes = |address: &str, port, flags| {
        fixture.takes_frame(&with_options(&fixture.segment(address, port, flags)))
    };
    let (syn, ack) = (tcp::Flags::SYN, tcp::Flags::ACK);
    assert!(!takes(V4.own[0], PORT, ack));
    maps.add_wildcard(PORT, false, TCP).unwrap();
    for address in V4.own {
        assert!(takes(address, PORT, ack), "{address}");
        assert!(!takes(address, PORT, syn), "{address}");
        assert!(!takes(address, PORT ^ 0x100, ack), "{address}");
    }
    assert!(!takes(V4.foreign, PORT, ack) && !takes(V4.alone, PORT, ack));
    maps.add_exemption((ip(V4.own[1]), PORT), (fixture.peer, 9), TCP)
        .unwrap();
    maps.port_has_exemptions((Ipv4Addr::UNSPECIFIED, PORT), TCP)
        .unwrap();
    assert!(!takes(V4.own[1], PORT, ack) && takes(V4.own[2], PORT, ack));
}
