//! Datagrams of random sizes in both directions arrive unharmed, none twice, none lost.

use std::time::Duration;

use crate::exchange::{Preloaded, exchange_on};
use testkit::{Namespaces, or_skip};

/// On a plain pair.
fn exchange(preloaded: Preloaded, requests: u64, environment: &[(&str, &str)], timeout: Duration) {
    let pair = or_skip!(Namespaces::pair());
    exchange_on(&pair, preloaded, requests, environment, timeout);
}

const TIMEOUT: Duration = Duration::from_secs(300);

#[test]
fn kernel_driver_and_accelerated_reflector() {
    let preloaded = Preloaded {
        driver: false,
        reflector: true,
    };
    exchange(preloaded, 50_000, &[], TIMEOUT);
}

#[test]
fn accelerated_driver_and_kernel_reflector() {
    let preloaded = Preloaded {
        driver: true,
        reflector: false,
    };
    exchange(preloaded, 50_000, &[], TIMEOUT);
}

#[test]
fn accelerated_at_both_ends() {
    let preloaded = Preloaded {
        driver: true,
        reflector: true,
    };
    exchange(preloaded, 30_000, &[], TIMEOUT);
    exchange(preloaded, 20_000, &[("VMA_SPEC", "latency")], TIMEOUT);
}

#[test]
fn sleeping_at_both_ends() {
    let preloaded = Preloaded {
        driver: true,
        reflector: true,
    };
    exchange(preloaded, 10_000, &[("VMA_RX_POLL", "0")], TIMEOUT);
}

/// Ten million datagrams: `cargo test --release -p end-to-end --test udp integrity -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn ten_million_datagrams() {
    const EACH: u64 = 10_000_000 / 2 / 3 + 1;
    let long = Duration::from_secs(1200);
    for (driver, reflector) in [(false, true), (true, false), (true, true)] {
        let preloaded = Preloaded { driver, reflector };
        exchange(preloaded, EACH, &[], long);
    }
}
