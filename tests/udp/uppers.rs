//! Interfaces over others: a macvlan, which every kernel has here.

use std::time::Duration;

use testkit::{
    Accelerated, Namespaces, Over, Pair, SOON, eventually, or_skip, panic_unless_paused, preloaded,
};

use crate::exchange::{Preloaded, exchange_on};

const TIMEOUT: Duration = Duration::from_secs(150);

#[test]
fn a_macvlan_is_past_the_kernel() {
    or_skip!(testkit::needs_xdp("links over others"));
    panic_unless_paused(|| {
        for driver in [true, false] {
            let pair = or_skip!(Namespaces::new().over(Over::Macvlan).create());
            let preloaded = Preloaded {
                driver,
                reflector: true,
            };
            exchange_on(&pair, preloaded, 5_000, &[], TIMEOUT);
        }
    });
}

/// A program that receives at the address, of the macvlan or of what is below it.
fn receiver(pair: &Pair, address: &str, mode: &str) -> Accelerated {
    let mut command = preloaded(&pair.b, &testkit::c_program("echo")).unwrap();
    command.args([address, "7500"]).env("VMA_XDP_MODE", mode);
    let mut receiver = Accelerated::start(command).unwrap();
    assert!(receiver.process().wait_for_output("ready", SOON));
    receiver
}

fn with_addresses_below() -> Result<Pair, testkit::Skip> {
    let pair = Namespaces::new().over(Over::Macvlan).create()?;
    let below = "link set under arp on\naddress add 10.78.0.2/24 dev under\n";
    pair.b.ip_batch(below).unwrap();
    Ok(pair)
}

#[test]
fn what_is_below_is_past_the_kernel_too_if_it_was_first() {
    or_skip!(testkit::needs_xdp("links over others"));
    let is_offloaded = |receiver: &Accelerated| receiver.sockets()[0].offloaded;
    let pair = or_skip!(with_addresses_below());
    let below = receiver(&pair, "10.78.0.2", "auto");
    assert!(eventually(SOON, || is_offloaded(&below)));
    let above = receiver(&pair, "10.77.0.2", "auto");
    assert!(eventually(SOON, || is_offloaded(&above)));

    let pair = or_skip!(with_addresses_below());
    let above = receiver(&pair, "10.77.0.2", "auto");
    assert!(eventually(SOON, || is_offloaded(&above)));
    let below = receiver(&pair, "10.78.0.2", "auto");
    let sockets = below.sockets();
    assert!(!sockets[0].offloaded, "{sockets:?}");
    assert_eq!(sockets[0].reason, 35_u32, "{sockets:?}");
    drop(above);
    assert!(eventually(SOON, || is_offloaded(&below)), "{sockets:?}");
}

#[test]
fn there_is_no_native_mode() {
    or_skip!(testkit::needs_xdp("links over others"));
    let pair = or_skip!(Namespaces::new().over(Over::Macvlan).create());
    let receiver = receiver(&pair, "10.77.0.2", "native");
    let sockets = receiver.sockets();
    assert!(!sockets[0].offloaded, "{sockets:?}");
    assert_eq!(sockets[0].reason, 6_u32, "{sockets:?}");
}
