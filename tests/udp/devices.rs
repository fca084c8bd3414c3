//! Other devices than the plain one: several queues, native mode, large MTUs.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::time::Duration;

use crate::exchange::{Preloaded, exchange_on};
use testkit::{Accelerated, Namespaces, Pair, eventually, or_skip, panic_unless_paused, preloaded};

const BOTH: Preloaded = Preloaded {
    driver: true,
    reflector: true,
};
const REFLECTOR: Preloaded = Preloaded {
    driver: false,
    reflector: true,
};
const TIMEOUT: Duration = Duration::from_secs(150);

#[test]
fn several_queues() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::new().queues(3).create());
        exchange_on(&pair, BOTH, 5_000, &[], TIMEOUT);
    });
}

#[test]
fn several_queues_and_a_kernel_peer() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::new().queues(2).create());
        exchange_on(&pair, REFLECTOR, 5_000, &[], TIMEOUT);
    });
}

#[test]
fn native_mode() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        exchange_on(&pair, BOTH, 5_000, &[("VMA_XDP_MODE", "native")], TIMEOUT);
    });
}

#[test]
fn native_mode_and_a_kernel_peer() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        let native = [("VMA_XDP_MODE", "native")];
        exchange_on(&pair, REFLECTOR, 5_000, &native, TIMEOUT);
    });
}

#[test]
fn generic_mode() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        exchange_on(&pair, BOTH, 5_000, &[("VMA_XDP_MODE", "generic")], TIMEOUT);
    });
}

#[test]
fn one_thread() {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        exchange_on(&pair, BOTH, 5_000, &[("VMA_THREAD_MODE", "0")], TIMEOUT);
    });
}

fn receiver() -> PathBuf {
    testkit::c_program("receiver")
}

/// What a receiver in `b` says of datagrams that a kernel socket in `a` sends. `library`: with the
/// library, and with these variables.
fn received(
    library: Option<&[(&str, &str)]>,
    pair: &Pair,
    send: impl Fn(&UdpSocket),
    receiver_starts: impl FnOnce(&Pair),
) -> String {
    let program = receiver();
    let mut command = match library {
        Some(environment) => {
            let mut command = preloaded(&pair.b, &program).unwrap();
            command.envs(environment.iter().copied());
            command
        }
        None => pair.b.command(&program),
    };
    command.args([&Pair::ADDRESS_B.to_string(), "7800"]);
    let mut receiver = Accelerated::start(command).unwrap();
    assert!(receiver.process().wait_for_output("ready", TIMEOUT));
    receiver_starts(pair);
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 7801)))
        .unwrap();
    sender.connect((Pair::ADDRESS_B, 7800)).unwrap();
    send(&sender);
    std::thread::sleep(Duration::from_millis(300));
    sender.send(b"end").unwrap();
    let finished = receiver.into_process().wait(TIMEOUT);
    let finished = finished.unwrap_or_else(|error| panic!("{library:?}: {error}"));
    // What comes through the kernel may be overtaken.
    let mut lines: Vec<_> = finished.stdout.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// Datagrams of every size up to the MTU, and one beyond.
fn send_sizes(sender: &UdpSocket) {
    for len in [
        1, 100, 1471, 1472, 1473, 2000, 2020, 2048, 3000, 8000, 8972, 8973, 20_000,
    ] {
        for copy in 0..3_u8 {
            let mut data = vec![b'a'; len];
            data[0] = b'0' + copy;
            sender.send(&data).unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What is sent and comes in one piece takes the way past the kernel, as far as it fits into a
/// frame.
#[test]
fn large_frames_come_past_the_kernel() {
    or_skip!(testkit::needs_xdp("frames longer than a pool's"));
    panic_unless_paused(|| {
        for (mtu, mode, payload_max, note) in [
            (1778, "auto", 1750, ""),
            (3000, "auto", 2972, ""),
            (3000, "native", 2972, ""),
            (
                9000,
                "auto",
                3798,
                "the MTU is 9000, and a frame holds 3826",
            ),
        ] {
            let pair = or_skip!(Namespaces::new().mtu(mtu).create());
            let mut command = preloaded(&pair.b, &receiver()).unwrap();
            command.env("VMA_XDP_MODE", mode);
            command.args([&Pair::ADDRESS_B.to_string(), "7800"]);
            let mut receiver = Accelerated::start(command).unwrap();
            assert!(receiver.process().wait_for_output("ready", TIMEOUT));
            let sender = pair
                .a
                .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
                .unwrap();
            sender.connect((Pair::ADDRESS_B, 7800)).unwrap();
            let lens = [1, 1472, 1750, 1751, 2972, 3798, 3799, 8972, 9000];
            for len in lens {
                sender.send(&vec![b'x'; len]).unwrap();
            }
            let said = eventually(TIMEOUT, || {
                receiver.process().stdout().lines().count() == 10
            });
            assert!(said, "{}", receiver.process().stdout());
            let past_kernel = lens.iter().filter(|len| **len <= payload_max).count();
            assert_eq!(receiver.packets(), past_kernel as u64, "MTU {mtu}, {mode}");
            let notes = receiver.reader().notes().unwrap();
            let text: String = notes.into_iter().map(|note| note.text).collect();
            assert!(
                text.starts_with(note) && text.is_empty() == note.is_empty(),
                "{text}"
            );
            drop(sender.send(b"end"));
        }
    });
}

#[test]
fn jumbo_frames() {
    panic_unless_paused(|| {
        let run = |library| {
            let pair = Namespaces::new().mtu(9000).create()?;
            Ok::<_, testkit::Skip>(received(library, &pair, send_sizes, |_| {}))
        };
        let (expected, seen) = (or_skip!(run(None)), or_skip!(run(Some(&[]))));
        assert_eq!(expected, seen);
    });
}

#[test]
fn the_mtu_grows_while_a_socket_is_open() {
    or_skip!(testkit::needs_xdp("frames longer than a pool's"));
    panic_unless_paused(|| {
        let grow = |pair: &Pair| {
            for (namespace, link) in [(&pair.a, "va"), (&pair.b, "vb")] {
                let line = ["link", "set", link, "mtu", "9000"];
                namespace.ip(&line).unwrap();
            }
            std::thread::sleep(Duration::from_millis(500));
        };
        let run = |library| {
            let pair = Namespaces::pair()?;
            Ok::<_, testkit::Skip>(received(library, &pair, send_sizes, grow))
        };
        let (expected, seen) = (or_skip!(run(None)), or_skip!(run(Some(&[]))));
        assert_eq!(expected, seen);
    });
}
