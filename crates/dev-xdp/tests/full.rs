//! More connections than the XDP program's map has room for: the one that finds it full is the
//! kernel's, and nothing else changes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddrV4};

use dev_core::{Backend, Flow, FramePool, LinkSpec, Protocol, RingsMax, Steering, ThreadMode};
use dev_xdp::{XdpBackend, XdpMode};
use testkit::{Namespaces, Pair, or_skip};

/// As many as there is room for.
const ROOM: u32 = 65_536;

fn link(pair: &Pair) -> LinkSpec {
    let listing = pair.b.ip(&["-o", "link", "show", "dev", "vb"]).unwrap();
    LinkSpec {
        index: listing.split(':').next().unwrap().trim().parse().unwrap(),
        name: "vb".to_owned(),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        upper: None,
    }
}

/// A connection of one of many peers.
fn flow(number: u32) -> Flow {
    let peer = SocketAddrV4::new(Ipv4Addr::from_bits(0x0a00_0000 + number), 9);
    Flow {
        peer: Some(peer.into()),
        ..listener(Pair::ADDRESS_B)
    }
}

fn listener(address: Ipv4Addr) -> Flow {
    Flow {
        protocol: Protocol::Tcp,
        local: SocketAddrV4::new(address, 80).into(),
        peer: None,
    }
}

#[test]
fn a_connection_too_many_costs_nobody_else_anything() {
    one_too_many_at(Pair::ADDRESS_B);
}

#[test]
fn nor_at_a_port_at_any_address() {
    one_too_many_at(Ipv4Addr::UNSPECIFIED);
}

fn one_too_many_at(address: Ipv4Addr) {
    let pair = or_skip!(Namespaces::pair());
    let pool = FramePool::new(4096, 2048, ThreadMode::SpinLock).unwrap();
    let pool: &'static FramePool = Box::leak(Box::new(pool));
    pair.b.enter(|| {
        let backend = XdpBackend::new(XdpMode::Generic, 256);
        let port = backend.open(&link(&pair), pool, RingsMax::ONE).unwrap();
        let steering = port.steering;
        steering.set_addresses(&[Pair::ADDRESS_B.into()]).unwrap();
        steering.add(&listener(address)).unwrap();
        for number in 0..ROOM {
            steering.add(&flow(number)).unwrap();
        }
        let refused = flow(ROOM);
        let error = steering.add(&refused).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::E2BIG));
        steering.remove(&refused).unwrap();
        assert!(steering.exempt(&refused).is_err());
        // With the listener all connections come to have entries of their own.
        steering.remove(&listener(address)).unwrap();
        steering.remove(&flow(1)).unwrap();
        steering.add(&refused).unwrap();
        assert!(!steering.is_taken_away());
    });
}
