//! Times of arrival in front of packets, by the system's clock and by the driver's word.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use dev_core::{
    Backend, Flow, FramePool, Noted, Port, Protocol, RingsMax, RxRing, Steering, ThreadMode,
};
use dev_xdp::{XdpBackend, XdpMode, XdpRx};
use testkit::{Namespaces, Pair, Skip, eventually, or_skip};

use support::link;

const PORT: u16 = 12_346;
const SOON: Duration = Duration::from_secs(60);

fn now_nsec() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// What is noted of the next datagram: whether it has its time, and the device's.
fn noted(
    port: &mut Port<XdpBackend>,
    pool: &'static FramePool,
    sender: &UdpSocket,
) -> (bool, Option<u64>) {
    let before = now_nsec();
    sender.send_to(b"stamped", (Pair::ADDRESS_B, PORT)).unwrap();
    let mut found = None;
    let came = eventually(SOON, || {
        port.receivers[0].rx.poll(pool, 16, |frame| {
            let arrived = XdpRx::arrived_nsec(pool, &frame);
            let is_now = arrived.is_some_and(|it| (before..=now_nsec()).contains(&it));
            found = Some((is_now, XdpRx::device_nsec(pool, &frame)));
            pool.give(frame);
        });
        found.is_some()
    });
    assert!(came);
    found.unwrap()
}

#[test]
fn a_driver_is_not_asked_in_generic_mode() {
    or_skip!(is_asked(XdpMode::Generic, false));
}

#[test]
fn a_driver_is_asked_in_its_own_mode() {
    or_skip!(is_asked(XdpMode::Native, true));
}

fn is_asked(mode: XdpMode, expected: bool) -> Result<(), Skip> {
    let pair = Namespaces::pair()?;
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))
        .unwrap();
    pair.b.enter(|| {
        let pool: &'static FramePool = Box::leak(Box::new(
            FramePool::new(4096, 2048, ThreadMode::SpinLock).unwrap(),
        ));
        let backend = XdpBackend::new(mode, 256);
        let link = link(&pair);
        assert_eq!(backend.may_show_clock(&link), expected);
        let mut port = backend.open(&link, pool, RingsMax::ONE).unwrap();
        let flow = Flow {
            protocol: Protocol::Udp,
            local: SocketAddrV4::new(Pair::ADDRESS_B, PORT).into(),
            peer: None,
        };
        port.steering.add(&flow).unwrap();
        assert_eq!(noted(&mut port, pool, &sender), (false, None));
        port.steering.stamp_arrivals(Noted::Time).unwrap();
        assert_eq!(noted(&mut port, pool, &sender), (true, None));
        // Of veth the kernel has the time of the sender's device, which has none.
        let asked = port.steering.stamp_arrivals(Noted::DeviceTime);
        assert_eq!(asked.is_ok(), expected, "{asked:?}");
        assert_eq!(noted(&mut port, pool, &sender), (true, None));
        port.steering.stamp_arrivals(Noted::Nothing).unwrap();
        assert!(port.steering.clock_sample().is_err(), "veth has no clock");
        port.steering.give_back();
    });
    Ok(())
}
