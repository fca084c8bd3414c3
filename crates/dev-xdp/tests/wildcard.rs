//! Ports that are redirected at any address of the interface, by the XDP program, which the kernel runs on one frame at a time.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{IpAddr, SocketAddr};

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

/// Of the two versions of IP: a peer, addresses of the interface of which the last two share a slot, and one that would have it, too.
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

    /// Whether the program takes a datagram.
    fn takes(&self, address: &str, port: u16) -> bool {
        let (source, destination): (SocketAddr, SocketAddr) =
            ((self.peer, 9).into(), (ip(address), port).into());
        let template = UdpTemplate::new(ETHERNET, source, destination, 64, 0, true);
        let mut frame = vec![0; template.header_len() + 1];
        template.emit_one(&mut frame, 1, b"x").unwrap();
        self.program.test_run(&frame).unwrap() == Verdict::Tx
    }

    /// The same of a segment that opens a connection.
    fn takes_segment(&self, address: &str, port: u16) -> bool {
        let template =
            tcp::Template::new(ETHERNET, (self.peer, 9), (ip(address), port), 64, 0, true);
        let header = tcp::Header {
            flags: tcp::Flags::SYN,
            ..tcp::Header::default()
        };
        let mut frame = vec![0; 128];
        let len = template.emit(&mut frame, 1, 0, &header, []).unwrap();
        self.program.test_run(&frame[..len]).unwrap() == Verdict::Tx
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at_any_address_of_the_interface(version: &Version) -> Result<(), Skip> {
    let fixture = Fixture::new(version)?;
    let maps = &fixture.maps;
    let of_v6 = fixture.peer.is_ipv6();
    let [first, second, third] = version.own;
    maps.add_wildcard(PORT, of_v6).unwrap();
    assert!(!fixture.takes(first, PORT), "no address of the interface");
    for address in version.own {
        maps.add_address(ip(address)).unwrap();
    }
    for address in version.own {
        assert!(fixture.takes(address, PORT), "{address}");
        // In either byte.
        for other in [PORT ^ 1, PORT ^ 0x100] {
            assert!(!fixture.takes(address, other), "{address} {other}");
        }
        assert!(!fixture.takes_segment(address, PORT), "{address}");
    }
    assert!(!fixture.takes(version.foreign, PORT), "to be forwarded");
    assert!(!fixture.takes(version.alone, PORT), "to be forwarded");

    maps.remove_address(ip(third)).unwrap();
    assert!(fixture.takes(second, PORT) && !fixture.takes(third, PORT));
    maps.add_address(ip(third)).unwrap();
    maps.remove_address(ip(second)).unwrap();
    assert!(!fixture.takes(second, PORT) && fixture.takes(third, PORT));

    maps.add_wildcard(PORT + 1, of_v6).unwrap();
    maps.remove_wildcard(PORT, of_v6).unwrap();
    assert!(!fixture.takes(first, PORT) && fixture.takes(first, PORT + 1));
    maps.remove_wildcard(PORT, of_v6).unwrap();
    Ok(())
}

#[test]
fn a_port_at_any_address_of_the_interface() {
    or_skip!(at_any_address_of_the_interface(&V4));
    or_skip!(at_any_address_of_the_interface(&V6));
}

#[test]
fn versions_have_ports_of_their_own() {
    for (version, other) in [(&V4, &V6), (&V6, &V4)] {
        let fixture = or_skip!(Fixture::new(version));
        let of_v6 = fixture.peer.is_ipv6();
        for address in version.own.iter().chain(&other.own) {
            fixture.maps.add_address(ip(address)).unwrap();
        }
        fixture.maps.add_wildcard(PORT, !of_v6).unwrap();
        assert!(!fixture.takes(version.own[0], PORT));
        fixture.maps.add_wildcard(PORT, of_v6).unwrap();
        assert!(fixture.takes(version.own[0], PORT));
    }
}

/// What is in the way of none: ports at one address, flows of one peer, exemptions from a port.
fn beside_others(version: &Version) -> Result<(), Skip> {
    let fixture = Fixture::new(version)?;
    let maps = &fixture.maps;
    let of_v6 = fixture.peer.is_ipv6();
    let [first, second, _] = version.own;
    for address in version.own {
        maps.add_address(ip(address)).unwrap();
    }
    // With the same lower byte, so that they have the slot of it.
    let (wildcard, at_one, connected) = (PORT, PORT + 0x100, PORT + 0x200);
    maps.add_port((ip(first), at_one), UDP).unwrap();
    maps.add_flow((ip(first), connected), (fixture.peer, 9), UDP)
        .unwrap();
    maps.add_wildcard(wildcard, of_v6).unwrap();
    maps.add_wildcard(80, of_v6).unwrap();
    for port in [wildcard, at_one, connected] {
        assert!(fixture.takes(first, port), "{port}");
    }
    assert!(fixture.takes(second, wildcard));
    assert!(!fixture.takes(second, at_one) && !fixture.takes(second, connected));
    // A foreign address at one port, as a group is.
    maps.add_port((ip(version.foreign), wildcard), UDP).unwrap();
    assert!(fixture.takes(version.foreign, wildcard) && fixture.takes(first, wildcard));

    // Connections at the port of the same number.
    assert!(!fixture.takes_segment(first, 80));
    maps.add_port((ip(first), 80), TCP).unwrap();
    assert!(fixture.takes_segment(first, 80) && fixture.takes(first, 80));
    maps.add_exemption((ip(first), 80), (fixture.peer, 9), TCP)
        .unwrap();
    maps.port_has_exemptions((ip(first), 80), TCP).unwrap();
    assert!(fixture.takes_segment(first, 80) && fixture.takes(first, 80));
    Ok(())
}

#[test]
fn beside_ports_flows_and_exemptions() {
    or_skip!(beside_others(&V4));
    or_skip!(beside_others(&V6));
}
