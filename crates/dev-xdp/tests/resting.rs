//! An interface of which nothing is steered has no program of ours, and its socket for sending all
//! the same.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use dev_core::{Backend, Flow, FramePool, Protocol, RingsMax, RxRing, Steering, ThreadMode};
use dev_xdp::{XdpBackend, XdpMode};
use testkit::{Namespaces, Pair, Skip, eventually, or_skip};

use support::link;

const PORT: u16 = 12_345;
/// A child that another test forks has the link, too, until it executes its program.
const SOON: Duration = Duration::from_secs(60);

fn flow() -> Flow {
    Flow {
        protocol: Protocol::Udp,
        local: SocketAddrV4::new(Pair::ADDRESS_B, PORT).into(),
        peer: None,
    }
}

fn has_program(pair: &Pair) -> bool {
    let listing = pair.b.ip(&["link", "show", "dev", "vb"]).unwrap();
    listing.contains("prog/xdp")
}

fn pair() -> Result<Pair, Skip> {
    Namespaces::pair()
}

#[test]
fn the_program_is_away_while_nothing_is_steered_and_comes_back() {
    let pair = or_skip!(pair());
    let pool: &'static FramePool = Box::leak(Box::new(
        FramePool::new(4096, 2048, ThreadMode::SpinLock).unwrap(),
    ));
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
        .unwrap();
    pair.b.enter(|| {
        let backend = XdpBackend::new(XdpMode::Generic, 256);
        let mut port = backend.open(&link(&pair), pool, RingsMax::ONE).unwrap();
        let steering = port.steering;
        for round in 0..3 {
            steering.add(&flow()).unwrap();
            assert!(has_program(&pair) && !steering.is_resting(), "{round}");
            sender.send_to(b"steered", (Pair::ADDRESS_B, PORT)).unwrap();
            let mut received = 0;
            let came = eventually(SOON, || {
                port.receivers[0].rx.poll(pool, 16, |frame| {
                    received += 1;
                    pool.give(frame);
                });
                received > 0
            });
            assert!(came, "{round}");
            steering.rest_if_unused();
            steering.rest_if_unused();
            assert!(has_program(&pair), "{round}: a flow is steered");

            steering.remove(&flow()).unwrap();
            steering.rest_if_unused();
            assert!(has_program(&pair), "{round}: it may come back soon");
            assert!(!steering.is_resting());
            steering.rest_if_unused();
            assert!(has_program(&pair), "{round}: somebody has asked");
            steering.rest_if_unused();
            assert!(eventually(SOON, || !has_program(&pair)), "{round}");
            assert!(steering.is_resting());
        }
        // What changes meanwhile is known afterwards.
        steering.rest_if_unused();
        let mac = link(&pair).mac;
        steering.set_mac([2, 0, 0, 0, 0, 1]).unwrap();
        assert!(!has_program(&pair));
        steering.set_mac(mac).unwrap();
        steering.give_back();
        steering.add(&flow()).unwrap();
        assert!(!has_program(&pair), "it was given back for good");
    });
}

#[test]
fn a_program_that_cannot_come_back_is_an_error() {
    let pair = or_skip!(pair());
    let pool: &'static FramePool = Box::leak(Box::new(
        FramePool::new(4096, 2048, ThreadMode::SpinLock).unwrap(),
    ));
    pair.b.enter(|| {
        let backend = XdpBackend::new(XdpMode::Generic, 256);
        let port = backend.open(&link(&pair), pool, RingsMax::ONE).unwrap();
        port.steering.rest_if_unused();
        port.steering.rest_if_unused();
        assert!(eventually(SOON, || !has_program(&pair)));
        let other = XdpBackend::new(XdpMode::Generic, 256);
        // The other one cannot have the queue, and leaves the interface as it was.
        let error = other
            .open(&link(&pair), pool, RingsMax::ONE)
            .map(drop)
            .unwrap_err();
        assert!(error.held, "{error:?}");
        assert!(eventually(SOON, || !has_program(&pair)));
        pair.b.ip(&["link", "delete", "vb"]).unwrap();
        port.steering.add(&flow()).unwrap_err();
    });
}

#[test]
fn what_was_closed_for_others_steers_nothing_any_more() {
    let pair = or_skip!(pair());
    let pool: &'static FramePool = Box::leak(Box::new(
        FramePool::new(4096, 2048, ThreadMode::SpinLock).unwrap(),
    ));
    pair.b.enter(|| {
        let open = || {
            let backend = XdpBackend::new(XdpMode::Generic, 256);
            backend.open(&link(&pair), pool, RingsMax::ONE)
        };
        let port = open().unwrap();
        port.steering.add(&flow()).unwrap();
        assert!(port.steering.has_flows() && !port.steering.close_if_unused().unwrap());
        port.steering.remove(&flow()).unwrap();
        assert!(!port.steering.has_flows() && port.steering.close_if_unused().unwrap());
        // A thread that was about to do so learns that nothing will come.
        port.steering.add(&flow()).unwrap_err();
        port.steering.give_back();
        port.steering.add(&flow()).unwrap_err();
        assert!(!port.steering.has_flows());
        // The old ones are still there, and another has the interface.
        let other = open().unwrap();
        other.steering.add(&flow()).unwrap();
        assert!(has_program(&pair));
    });
}
