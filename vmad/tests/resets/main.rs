//! The whole daemon against the kernel of another network namespace: what peers of killed processes
//! see.

mod accelerated;
mod guarded;
mod lab;
mod redirection;
mod statistics;

use std::time::Duration;

use lab::{Lab, Outcome};
use testkit::or_skip;

const CONNECTIONS: usize = 1000;
const ATTEMPTS: usize = 5;

/// By then every peer must know.
const AT_ONCE: Duration = Duration::from_millis(100);
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

#[test]
fn every_peer_of_a_killed_process_is_reset_at_once() {
    let lab = or_skip!(Lab::alone());
    let mut seen = Vec::new();
    // All are told every time; how soon depends on what else the machine does, so the best of some
    // attempts counts.
    while seen.len() < ATTEMPTS && seen.iter().all(|&last| last > AT_ONCE) {
        let daemon = lab.daemon(&[]);
        let mut peers = lab.listen();
        let client = lab.client(&peers, CONNECTIONS);
        peers.accept(CONNECTIONS);
        client.signal(SIGKILL).unwrap();
        let Outcome { reset, last } = peers.wait_for_resets(Duration::from_secs(5));
        let status = lab.status(&daemon);
        assert_eq!(reset, CONNECTIONS, "{status}");
        assert!(
            lab.counter(&status, "resets sent") >= CONNECTIONS as u64 * 9 / 10,
            "{status}"
        );
        seen.push(last);
    }
    eprintln!("{CONNECTIONS} peers were reset within {seen:?}");
    assert!(seen.iter().any(|&last| last <= AT_ONCE), "{seen:?}");
}

/// Those of packaging/vma.service.
#[test]
fn the_rights_of_the_service_are_enough() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon_as_service();
    let mut peers = lab.listen();
    let client = lab.client(&peers, 10);
    let publisher = lab.publisher();
    peers.accept(10);
    client.signal(SIGKILL).unwrap();
    let reset = peers.wait_for_resets(Duration::from_secs(5)).reset;
    assert_eq!(reset, 10, "{}", daemon.stdout());
    publisher.signal(SIGKILL).unwrap();
    lab.status_with(&daemon, |status| lab.counter(status, "resets sent") > 0);
    let file = format!("vmastat.{}", publisher.pid());
    lab.status_with(&daemon, |_| !lab.files().contains(&file));
}

#[test]
fn without_the_daemon_no_peer_learns() {
    let lab = or_skip!(Lab::new());
    let mut peers = lab.listen();
    let client = lab.client_without_daemon(&peers, 10);
    peers.accept(10);
    client.signal(SIGKILL).unwrap();
    assert_eq!(peers.wait_for_resets(Duration::from_secs(1)).reset, 0);
}

#[test]
fn forged_claims_reset_nobody_else() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&["-v", "6"]);
    let mut peers = lab.listen();
    // One that tells of its connections, and one that does not know of the daemon.
    let told = lab.client(&peers, 5);
    peers.accept(5);
    let silent = lab.client_without_daemon(&peers, 5);
    peers.accept(5);
    lab.open_socket_to_all();
    for user in ["0", "65534"] {
        let forger = lab.forger(user, &peers.connections());
        // A process of any user may send; what it says of itself is believed, and no more.
        forger.signal(SIGKILL).unwrap();
        let seen = peers.wait_for_resets(Duration::from_millis(500));
        assert_eq!(seen.reset, 0, "user {user}: {}", daemon.stdout());
    }
    let status = lab.status(&daemon);
    assert!(lab.counter(&status, "  refused") >= 10, "{status}");
    // The daemon still does what it is for.
    told.signal(SIGKILL).unwrap();
    assert_eq!(
        peers.wait_for_resets(Duration::from_secs(2)).reset,
        5,
        "{}",
        daemon.stdout()
    );
    drop(silent);
}

#[test]
fn a_connection_of_elsewhere_is_not_taken() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&["-v", "6"]);
    lab.open_socket_to_all();
    let elsewhere = vec![(
        "192.0.2.1:80".parse().unwrap(),
        "192.0.2.2:90".parse().unwrap(),
    )];
    let forger = lab.forger("0", &elsewhere);
    forger.signal(SIGKILL).unwrap();
    let status = lab.status_with(&daemon, |status| {
        lab.counter(status, "processes that ended") == 1
    });
    assert_eq!(lab.counter(&status, "  refused"), 1, "{status}");
    assert_eq!(lab.counter(&status, "probes sent"), 0, "{status}");
}

#[test]
fn a_flood_of_messages_is_bounded_and_holds_nobody_up() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&[]);
    let flood = lab.flood(300_000);
    let mut peers = lab.listen();
    let client = lab.client(&peers, 100);
    peers.accept(100);
    client.signal(SIGKILL).unwrap();
    let outcome = peers.wait_for_resets(Duration::from_secs(5));
    assert_eq!(outcome.reset, 100);
    drop(flood);
    let kib = lab::resident_kib(daemon.pid());
    assert!(kib < 64 * 1024, "{kib} KiB");
}

#[test]
fn it_ends_and_leaves_nothing_behind() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&[]);
    lab.status(&daemon);
    let finished = daemon.stop(SIGTERM, Duration::from_secs(10)).unwrap();
    assert!(finished.status.success(), "{}", finished.stdout);
    assert!(
        finished.stdout.contains("[INFO  ] ended"),
        "{}",
        finished.stdout
    );
    assert_eq!(lab.files(), Vec::<String>::new());
}
