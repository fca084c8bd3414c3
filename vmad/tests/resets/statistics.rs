//! Processes that are found by their statistics.

use std::env;
use std::path::Path;
use std::thread;
use std::time::Duration;

use stats::{Capacity, Identity, Segment};
use testkit::or_skip;

use crate::SIGKILL;
use crate::lab::Lab;

/// Names the directory to publish in.
pub(crate) const PUBLISH: &str = "VMAD_TEST_PUBLISH";

/// Names local end and peer of a connection to publish, if any.
pub(crate) const CLAIM: &str = "VMAD_TEST_CLAIM";

/// Publishes statistics as the library does, until it is killed.
#[test]
#[ignore = "a part of the next test, in a process of its own"]
fn publisher() {
    let Some(directory) = env::var_os(PUBLISH) else {
        return;
    };
    let capacity = Capacity {
        sockets: 1,
        connections: 1,
        rings: 1,
        pools: 1,
        reasons: 1,
        settings: 0,
        rules: 0,
    };
    let identity = Identity::of_this_process("0.0.0");
    let segment = Segment::create(Path::new(&directory), &identity, capacity).unwrap();
    let slot = segment.claim_tcp_connection();
    if let Ok(claim) = env::var(CLAIM) {
        let (local, peer) = claim.split_once(' ').unwrap();
        slot.fd.set(3);
        slot.local.set(local.parse().unwrap());
        slot.peer.set(peer.parse().unwrap());
        slot.state.set(1);
    }
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_process_with_statistics_is_watched_and_its_file_removed_when_it_dies() {
    let lab = or_skip!(Lab::new());
    // One that runs before the daemon does, and one that begins later.
    let early = lab.publisher();
    let daemon = lab.daemon(&[]);
    let late = lab.publisher();
    let lines = [&early, &late]
        .map(|publisher| format!("{:>7}      ?            0  statistics\n", publisher.pid()));
    lab.status_with(&daemon, |status| {
        lines.iter().all(|line| status.contains(line))
    });
    let files = [&early, &late].map(|publisher| format!("vmastat.{}", publisher.pid()));
    assert!(files.iter().all(|file| lab.files().contains(file)));
    early.signal(SIGKILL).unwrap();
    late.signal(SIGKILL).unwrap();
    let status = lab.status_with(&daemon, |status| lab.counter(status, "files removed") == 2);
    assert!(!files.iter().any(|file| lab.files().contains(file)));
    assert!(status.contains("No process is watched"), "{status}");
}
