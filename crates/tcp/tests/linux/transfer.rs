//! Data both ways.

use std::time::Duration;

use testkit::link::{Conditions, Loss};
use testkit::or_skip;

use crate::lab::{Lab, OPENERS, Opener, Setup};
use crate::pattern::{self, Pump};

const MIB: u64 = 1 << 20;

/// One percent lost, some late and some twice.
pub(crate) const LOSSY: Conditions = Conditions {
    rate_bits_per_second: Some(200_000_000),
    delay: Duration::from_millis(1),
    queue_octets: 300_000,
    loss: Loss::Random(0.01),
    reorder: 0.05,
    reorder_delay: Duration::from_millis(1),
    duplicate: 0.01,
};

/// Sends `len` octets in both directions at once on a new connection, and checks each.
fn transfer(lab: &mut Lab, opener: Opener, len: u64) -> usize {
    let (id, stream) = lab.open(opener);
    exchange(lab, id, &stream, len);
    id
}

pub(crate) fn exchange(lab: &mut Lab, id: usize, stream: &std::net::TcpStream, len: u64) {
    let (reading, writing) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
    let reader = lab.spawn(move || pattern::read(reading, 0, len));
    let writer = lab.spawn(move || pattern::write(writing, 0, len));
    let mut pump = Pump::default();
    lab.run_until("transfer", |host, now| {
        let connection = &mut host.connections[id].connection;
        let is_written = pump.write(now, connection, len);
        pump.read(now, connection, len) && is_written && connection.unacknowledged_len() == 0
    });
    lab.join("reading", reader).unwrap();
    lab.join("writing", writer).unwrap();
}

#[test]
fn much_goes_both_ways() {
    let mut lab = or_skip!(Lab::new());
    transfer(&mut lab, Opener::Engine, 64 * MIB);
}

#[test]
fn much_goes_both_ways_on_an_accepted_connection() {
    let mut lab = or_skip!(Lab::new());
    transfer(&mut lab, Opener::Kernel, 64 * MIB);
}

#[test]
#[ignore = "takes a minute"]
fn a_gibibyte_goes_both_ways() {
    for opener in OPENERS {
        let mut lab = or_skip!(Lab::new());
        transfer(&mut lab, opener, 1024 * MIB);
    }
}

#[test]
fn losses_are_made_up_for() {
    let bursts = Conditions {
        loss: Loss::Burst {
            start: 0.002,
            end: 0.2,
        },
        ..LOSSY
    };
    for (opener, conditions) in OPENERS.into_iter().zip([LOSSY, bursts]) {
        let mut lab = or_skip!(Lab::with(Setup {
            conditions,
            ..Setup::default()
        }));
        let id = transfer(&mut lab, opener, 4 * MIB);
        let now = lab.now();
        let info = lab.host().connections[id].connection.info(now);
        assert!(info.octets_retransmitted > 0, "{info:?}");
        assert!(info.out_of_order_segments > 0, "{info:?}");
    }
}
