//! What vmad reads: datagrams of any process and packets of any peer. Whatever they say, one user's
//! messages leave no claim to what another user's live process has, and everything is forgotten
//! with the last process.

#![no_main]

use std::time::{Duration, Instant};

use libfuzzer_sys::fuzz_target;
use vmad::message::{self, Message, TcpState};
use vmad::packet;
use vmad::registry::{Limits, Registry};
use vmad::resets::{Answer, Next, Resets};

/// Small, so that they are reached.
const LIMITS: Limits = Limits {
    processes: 4,
    processes_of_user: 2,
    connections_of_process: 8,
    connections: 16,
    connections_of_user: 10,
};

const PROCESSES: u8 = 6;

/// Two processes a user; the first user is root.
fn user(pid: u32) -> u32 {
    pid / 2
}

fuzz_target!(|bytes: &[u8]| {
    let now = Instant::now();
    let mut registry = Registry::new(LIMITS);
    let mut resets = Resets::new(Duration::from_secs(1), now);
    let mut rest = bytes;
    while let Some(([choice, length], behind)) = rest.split_first_chunk() {
        let length = usize::from(*length).min(behind.len());
        let (chunk, behind) = behind.split_at(length);
        rest = behind;
        let pid = u32::from(choice % PROCESSES);
        match choice / PROCESSES % 3 {
            0 => datagram(&mut registry, pid, chunk, now),
            1 => {
                let claims = registry.end(pid);
                for claim in &claims {
                    assert!(!registry.has(&claim.connection));
                }
                resets.add(claims);
            }
            _ => packet_of_peer(&mut resets, chunk),
        }
        work(&mut resets, &registry, now);
    }
    for pid in 0..u32::from(PROCESSES) {
        registry.end(pid);
    }
    assert!(registry.summary().is_empty());
    finish(&mut resets, now);
});

fn datagram(registry: &mut Registry, pid: u32, bytes: &[u8], now: Instant) {
    for received in message::parse(bytes).flatten() {
        match received.message {
            Message::Init { library } => drop(registry.begin(pid, user(pid), library, now)),
            Message::State {
                descriptor,
                connection,
                state,
                ..
            } => {
                if state == TcpState::Other || !connection.is_plausible() {
                    registry.close(pid, descriptor);
                } else if registry.open(pid, descriptor, connection).is_ok() {
                    assert!(registry.contains(pid) && registry.has(&connection));
                }
            }
            Message::Exit => registry.leave(pid),
            Message::Flow { .. } => {}
        }
    }
    let summary = registry.summary();
    assert!(summary.len() <= LIMITS.processes);
    for process in &summary {
        assert_eq!(process.user, user(process.pid));
        assert!(process.connections <= LIMITS.connections_of_process);
    }
}

fn packet_of_peer(resets: &mut Resets, bytes: &[u8]) {
    let mut buffer = vec![0; packet::PACKET_OFFSET];
    buffer.extend(bytes);
    if let Some((connection, answer)) = packet::read(&mut buffer) {
        resets.answered(&connection, answer);
    }
}

fn work(resets: &mut Resets, registry: &Registry, now: Instant) {
    while let Some(next) = resets.next(now) {
        if let Next::Check(claim) = next
            && !registry.has(&claim.connection)
        {
            let (connection, _) = resets.start(claim, now);
            if connection.peer.port() % 2 == 0 {
                resets.answered(&connection, Answer::Acknowledges(7));
            }
        }
    }
}

/// Peers that never answer are given up.
fn finish(resets: &mut Resets, mut now: Instant) {
    for _ in 0..8 {
        now += Duration::from_secs(1);
        while resets.next(now).is_some() {}
    }
    assert!(resets.is_idle());
}
