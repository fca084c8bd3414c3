//! A sender without pauses to one socket of a program: calls on its other sockets end as on the
//! kernel.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{Comparison, Pair, VARIANTS, or_skip};

const FLOODED: u16 = 7410;

/// Sends as fast as it can until told to stop.
fn flood(socket: &UdpSocket, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // The errors are those of a port that is closed.
        drop(socket.send_to(b"flooded.", (Pair::ADDRESS_B, FLOODED)));
    }
}

fn under_flood(case: &str) {
    let comparison = or_skip!(Comparison::new());
    let program = testkit::c_program("floods");
    let peer = comparison
        .pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 7010)))
        .unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&peer, &stop));
        // However it ends, the sender must end too.
        let compare = || comparison.assert_same(&program, &[case], VARIANTS);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare));
        stop.store(true, Ordering::Relaxed);
        if let Err(cause) = outcome {
            std::panic::resume_unwind(cause);
        }
    });
}

#[test]
fn timeouts_are_kept() {
    under_flood("timeouts");
}

#[test]
fn signals_interrupt() {
    under_flood("signals");
}

#[test]
fn sockets_close() {
    under_flood("closes");
}
