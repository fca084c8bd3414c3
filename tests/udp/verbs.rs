//! Datagrams by the queue pairs of an RDMA device, an emulated one.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::exchange::{Preloaded, exchange_on};
use testkit::{
    Accelerated, Namespaces, Pair, SOON, VerbsQueues, emulated_verbs, or_skip, panic_unless_paused,
    preloaded,
};

const TIMEOUT: Duration = Duration::from_secs(60);

fn exchange(queues: VerbsQueues, preloaded: Preloaded, further: &[(&str, &str)]) {
    panic_unless_paused(|| {
        let pair = or_skip!(Namespaces::pair());
        pair.make_wire();
        let device = emulated_verbs(queues).unwrap();
        let device = device.iter().map(|(name, value)| (*name, value.as_str()));
        let environment: Vec<_> = device.chain(further.iter().copied()).collect();
        exchange_on(&pair, preloaded, 2_000, &environment, TIMEOUT);
    });
}

const BOTH: Preloaded = Preloaded {
    driver: true,
    reflector: true,
};

const REFLECTOR: Preloaded = Preloaded {
    driver: false,
    reflector: true,
};

#[test]
fn verbs_on_both_sides() {
    exchange(VerbsQueues::Calls, BOTH, &[]);
}

#[test]
fn mlx5_on_both_sides() {
    exchange(VerbsQueues::Mlx5, BOTH, &[]);
}

#[test]
fn verbs_and_a_kernel_peer() {
    exchange(VerbsQueues::Calls, REFLECTOR, &[]);
}

#[test]
fn mlx5_and_a_kernel_peer() {
    exchange(VerbsQueues::Mlx5, REFLECTOR, &[]);
}

#[test]
fn verbs_without_inline_data() {
    exchange(VerbsQueues::Calls, BOTH, &[("VMA_TX_MAX_INLINE", "0")]);
}

/// Doorbells without the request, and requests without data.
#[test]
fn mlx5_without_inline_data_and_blueflame() {
    let without = [("VMA_TX_MAX_INLINE", "0"), ("VMA_BF", "0")];
    exchange(VerbsQueues::Mlx5, BOTH, &without);
}

/// Most datagrams are copied into the queue, and pass its end.
#[test]
fn mlx5_with_much_inline_data() {
    exchange(VerbsQueues::Mlx5, BOTH, &[("VMA_TX_MAX_INLINE", "884")]);
}

#[test]
fn verbs_with_short_queues() {
    exchange(VerbsQueues::Calls, BOTH, &short_queues("16"));
}

/// The emulated card looks at doorbells when its thread runs: bursts wait that long.
#[test]
fn mlx5_with_short_queues() {
    exchange(VerbsQueues::Mlx5, BOTH, &short_queues("128"));
}

fn short_queues(send: &'static str) -> [(&'static str, &'static str); 4] {
    [
        ("VMA_TX_WRE", send),
        ("VMA_TX_WRE_BATCHING", "4"),
        ("VMA_RX_WRE", "256"),
        ("VMA_RX_WRE_BATCHING", "8"),
    ]
}

/// A device that takes no rule leaves its packets to the kernel, and says why.
#[test]
fn what_the_device_refuses_is_the_kernels() {
    for (fault, words) in [
        ("no-raw-packets", "no queue pair of raw packets"),
        ("no-flows", "cannot steer"),
    ] {
        let pair = or_skip!(Namespaces::pair());
        let mut command = preloaded(&pair.b, &testkit::c_program("echo")).unwrap();
        command
            .args([&Pair::ADDRESS_B.to_string(), "7941"])
            .envs(emulated_verbs(VerbsQueues::Calls).unwrap())
            .env("EMULATED_VERBS_FAULT", fault);
        let mut server = Accelerated::start(command).unwrap();
        let _input = server.process().stdin();
        assert!(server.process().wait_for_output("ready", SOON));
        let client = pair
            .a
            .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
            .unwrap();
        client.set_read_timeout(Some(SOON)).unwrap();
        client.send_to(b"hello", (Pair::ADDRESS_B, 7941)).unwrap();
        let mut answer = [0; 5];
        client.recv(&mut answer).unwrap();
        assert_eq!((answer, server.packets()), (*b"hello", 0), "{fault}");
        let log = server.process().stderr();
        assert!(log.contains(words), "{fault}: {log}");
    }
}

#[test]
fn sockets_of_a_device_that_fails_go_to_the_kernel() {
    device_fails(VerbsQueues::Calls);
}

#[test]
fn sockets_of_an_mlx5_that_fails_go_to_the_kernel() {
    device_fails(VerbsQueues::Mlx5);
}

/// A device that fails tells so by an event, and takes requests still.
fn device_fails(queues: VerbsQueues) {
    let pair = or_skip!(Namespaces::pair());
    pair.make_wire();
    let mut command = preloaded(&pair.b, &testkit::c_program("echo")).unwrap();
    command
        .args([&Pair::ADDRESS_B.to_string(), "7942"])
        .envs(emulated_verbs(queues).unwrap())
        .env("EMULATED_VERBS_FAULT", "fatal");
    let mut server = Accelerated::start(command).unwrap();
    let _input = server.process().stdin();
    assert!(server.process().wait_for_output("ready", SOON));
    let client = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    let tries = Duration::from_millis(100);
    client.set_read_timeout(Some(tries)).unwrap();
    let mut answered = 0;
    let deadline = Instant::now() + TIMEOUT;
    // It fails after five frames that were sent.
    while answered < 50 {
        assert!(Instant::now() < deadline, "{}", server.process().stderr());
        client.send_to(b"hello", (Pair::ADDRESS_B, 7942)).unwrap();
        answered += usize::from(client.recv(&mut [0; 5]).is_ok());
    }
    // The first answers are the kernel's, too, until it knows the way.
    assert!((1..50).contains(&server.packets()), "{}", server.packets());
    let log = server.process().stderr();
    assert!(log.contains("the device has failed"), "{log}");
    assert!(log.contains("the interface is the kernel's"), "{log}");
}

/// The emulated device is worth nothing if it lets pass what a real one suffers from.
#[test]
fn the_emulated_device_ends_who_abuses_it() {
    or_skip!(testkit::needs::require(&["header:infiniband/verbs.h"]));
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program_with("verbs_abuse", &["-libverbs"]);
    for (what, words) in [
        ("nothing", None),
        ("unregistered", Some("not registered")),
        ("reused", Some("the device has it")),
        ("overrun", Some("completion queue is full")),
    ] {
        let mut command = pair.a.command(&program);
        command
            .arg(what)
            .envs(emulated_verbs(VerbsQueues::Calls).unwrap());
        let ended = command.output().unwrap();
        let log = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.success(), words.is_none(), "{what}: {log}");
        assert!(
            words.is_none_or(|words| log.contains(words)),
            "{what}: {log}"
        );
    }
}
