//! Ports that several processes have together: the program's choice between them, run by the
//! kernel on one frame at a time.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use dev_xdp::bpf::hidden::Hidden;
use dev_xdp::bpf::program::{Capacity, FlowMaps, OnMatch, Program, Shares, Verdict};
use testkit::{Skip, or_skip};
use wire::{EthernetAddresses, UdpTemplate};

const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const TCP: u8 = 6;
const UDP: u8 = 17;
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: SocketAddrV4 = SocketAddrV4::new(ADDRESS, 80);
/// A verdict that stands for "ours" where no AF_XDP socket is there to redirect to.
const OURS: Verdict = Verdict::Tx;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

struct Fixture {
    maps: FlowMaps,
    program: Program,
}

impl Fixture {
    /// Processes 1 and 2 have port 80 of both protocols, at one address or at any.
    fn new(at_any: bool) -> Result<Self, Skip> {
        let maps = FlowMaps::create_shared(64).map_err(|error| match error.errno() {
            Some(libc::EPERM | libc::ENOSYS) => Skip::new(format!("{error}")),
            _ => panic!("{error}"),
        })?;
        let local = match at_any {
            true => SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT.port()),
            false => PORT,
        };
        maps.add_address(ADDRESS.into()).unwrap();
        for (protocol, group) in [(TCP, 0), (UDP, 5)] {
            maps.set_shares(group, &Shares::among([1, 2].into_iter()))
                .unwrap();
            maps.set_group(PORT.port(), protocol, group).unwrap();
            if !at_any {
                maps.add_port(local, protocol).unwrap();
            }
            maps.port_has_exemptions(local, protocol).unwrap();
        }
        let capacity = Capacity {
            frame_bytes: 1792,
            in_pieces: false,
        };
        let on_match = OnMatch::Verdict(OURS);
        let program = Program::load(&maps, MAC, capacity, on_match, Hidden::Nothing).unwrap();
        Ok(Self { maps, program })
    }

    fn run(&self, frame: &[u8]) -> Verdict {
        self.program.test_run(frame).unwrap()
    }

    fn owner(&self, peer: SocketAddrV4) -> Option<u8> {
        self.maps
            .born_to(SocketAddr::V4(PORT), SocketAddr::V4(peer), TCP)
    }
}

fn peer(port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 200), port)
}

fn addresses() -> EthernetAddresses {
    EthernetAddresses {
        source: [0x02, 0xaa, 0xbb, 0xcc, 0xdd, 0xee],
        destination: MAC,
    }
}

fn segment(from: SocketAddrV4, flags: u8) -> Vec<u8> {
    let template = wire::tcp::Template::new(addresses(), from, PORT, 64, 0, true);
    let mut frame = vec![0; wire::tcp::Template::MAX_HEADERS_LEN];
    let header = wire::tcp::Header::default();
    let len = template.emit(&mut frame, 1, 0, &header, [&b""[..]]);
    frame.truncate(len.unwrap());
    frame[47] = flags;
    frame
}

fn datagram(from: SocketAddrV4) -> Vec<u8> {
    let template = UdpTemplate::new(addresses(), from, PORT, 64, 0, true);
    let mut frame = vec![0; template.header_len() + 1];
    template.emit_one(&mut frame, 1, b"x").unwrap();
    frame
}

#[test]
fn a_connection_is_the_process_s_that_its_syn_went_to() {
    for at_any in [false, true] {
        let fixture = or_skip!(Fixture::new(at_any));
        let mut counts = [0; 3];
        for port in 1000..1400 {
            let ends = peer(port);
            assert_eq!(fixture.run(&segment(ends, ACK)), Verdict::Pass, "unknown");
            assert_eq!(fixture.run(&segment(ends, SYN)), OURS);
            let owner = fixture.owner(ends).unwrap();
            counts[usize::from(owner)] += 1;
            assert_eq!(fixture.run(&segment(ends, ACK)), OURS);
        }
        assert!(
            counts[0] == 0 && counts[1] > 120 && counts[2] > 120,
            "{counts:?}"
        );
        // Another takes all that is new; what there is stays where it is.
        let shares = Shares::among([1, 2, 3].into_iter());
        fixture.maps.set_shares(0, &shares).unwrap();
        for port in 1000..1400 {
            let before = fixture.owner(peer(port));
            assert_eq!(fixture.run(&segment(peer(port), SYN)), OURS, "sent again");
            assert_eq!(fixture.owner(peer(port)), before);
        }
        // Who takes no more keeps connections, but not those that are opened anew.
        let shares = Shares::among([3].into_iter());
        fixture.maps.set_shares(0, &shares).unwrap();
        assert_eq!(fixture.run(&segment(peer(1000), ACK)), OURS);
        assert_ne!(fixture.owner(peer(1000)), Some(3));
        assert_eq!(fixture.run(&segment(peer(1000), SYN)), OURS);
        assert_eq!(fixture.owner(peer(1000)), Some(3));
        let forget = |port| {
            let (local, ends) = (SocketAddr::V4(PORT), SocketAddr::V4(peer(port)));
            fixture.maps.forget_birth(local, ends, TCP)
        };
        forget(1000).unwrap();
        assert_eq!(fixture.run(&segment(peer(1000), ACK)), Verdict::Pass);
        assert!(forget(1000).is_err());
        fixture
            .maps
            .set_shares(0, &Shares::among([].into_iter()))
            .unwrap();
        assert_eq!(fixture.run(&segment(peer(1000), SYN)), Verdict::Pass);
        assert_eq!(fixture.run(&segment(peer(1001), ACK)), OURS);
    }
}

#[test]
fn who_leaves_has_its_connections_no_longer() {
    let fixture = or_skip!(Fixture::new(false));
    let ports = 1000..1100;
    for port in ports.clone() {
        assert_eq!(fixture.run(&segment(peer(port), SYN)), OURS);
    }
    fixture.maps.forget_births_of(1, PORT.port(), TCP);
    fixture.maps.forget_births_of(2, PORT.port() + 1, TCP);
    fixture.maps.forget_births_of(2, PORT.port(), UDP);
    let owners: Vec<_> = ports
        .clone()
        .map(|port| fixture.owner(peer(port)))
        .collect();
    assert!(owners.contains(&None) && owners.contains(&Some(2)) && !owners.contains(&Some(1)));
    for (port, owner) in ports.zip(owners) {
        let expected = if owner.is_some() { OURS } else { Verdict::Pass };
        assert_eq!(fixture.run(&segment(peer(port), ACK)), expected);
    }
}

#[test]
fn flows_go_before_groups() {
    let fixture = or_skip!(Fixture::new(false));
    fixture.maps.add_flow_of(7, PORT, peer(1), TCP).unwrap();
    assert_eq!(fixture.run(&segment(peer(1), ACK)), OURS);
    assert_eq!(fixture.run(&segment(peer(1), SYN)), OURS);
    assert_eq!(fixture.owner(peer(1)), None);
}

#[test]
fn datagrams_need_no_entry() {
    for at_any in [false, true] {
        let fixture = or_skip!(Fixture::new(at_any));
        assert_eq!(fixture.run(&datagram(peer(1))), OURS);
        fixture
            .maps
            .set_shares(5, &Shares::among([].into_iter()))
            .unwrap();
        assert_eq!(fixture.run(&datagram(peer(1))), Verdict::Pass);
    }
}
