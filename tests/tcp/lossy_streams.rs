//! TCP past the kernel over a link that loses, repeats and reorders frames: every octet arrives,
//! once and in order, also when the connection goes back to the kernel while octets are on their
//! way in both directions.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use testkit::link::{Conditions, Loss};
use testkit::{
    Accelerated, Namespace, Namespaces, Pair, Running, SOON, Skip, echo_streams, or_skip, preloaded,
};

const PORT: u16 = 7920;
/// Connections that the server of `streams.c` serves.
const SERVED: usize = 4;
/// What a client sends, and has back.
const LEN: usize = 600_000;

fn lossy(seed: u64) -> Result<Pair, Skip> {
    let conditions = Conditions {
        delay: Duration::from_micros(200),
        loss: Loss::Random(0.01),
        reorder: 0.01,
        reorder_delay: Duration::from_millis(1),
        duplicate: 0.005,
        ..Conditions::default()
    };
    Namespaces::new().cable(conditions, seed).create()
}

fn program() -> PathBuf {
    testkit::c_program("streams")
}

/// The program's case, with the library or without.
fn command(namespace: &Namespace, is_preloaded: bool, case: &str) -> Command {
    let mut command = if is_preloaded {
        let mut command = preloaded(namespace, &program()).unwrap();
        command.env("VMA_TRACELEVEL", "4");
        command
    } else {
        namespace.command(program())
    };
    command.args([case, &Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    command
}

/// Runs a client, which checks all octets, and returns its log.
fn run(namespace: &Namespace, is_preloaded: bool, case: &str) -> String {
    let running = Running::start(command(namespace, is_preloaded, case)).unwrap();
    let finished = running.wait(SOON).unwrap();
    let log = finished.stderr;
    assert!(
        finished.status.success(),
        "{case}: {}{log}",
        finished.stdout
    );
    assert_eq!(finished.stdout, "all octets\n", "{log}");
    if is_preloaded {
        assert!(log.contains("past the kernel by va"), "{log}");
    }
    log
}

#[test]
fn octets_are_exact_with_the_library_at_the_client() {
    let pair = or_skip!(lossy(1));
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    for _ in 0..3 {
        let log = run(&pair.a, true, "plain");
        assert!(!log.contains("back to the kernel"), "{log}");
    }
}

fn with_the_library_at_the_server(is_client_preloaded: bool) {
    let pair = or_skip!(lossy(2));
    let mut server = Accelerated::start(command(&pair.b, true, "serve")).unwrap();
    assert!(server.process().wait_for_output("ready", SOON));
    for _ in 1..SERVED {
        run(&pair.a, is_client_preloaded, "plain");
    }
    let packets = server.received_by_rings();
    assert!(packets > 500, "{packets} packets past the kernel");
    run(&pair.a, is_client_preloaded, "plain");
    let finished = server.into_process().wait(SOON).unwrap();
    let expected = format!("{LEN} octets, TCP_NODELAY 1\n").repeat(SERVED);
    assert_eq!(
        finished.stdout,
        format!("ready\n{expected}"),
        "{}",
        finished.stderr
    );
}

#[test]
fn octets_are_exact_with_the_library_at_the_server() {
    with_the_library_at_the_server(false);
}

#[test]
fn octets_are_exact_with_the_library_at_both_ends() {
    with_the_library_at_the_server(true);
}

/// The connection goes back in the middle of a transfer in both directions.
fn goes_back(case: &str, reason: &str) {
    for seed in 3..8 {
        let pair = or_skip!(lossy(seed));
        echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
        let log = run(&pair.a, true, case);
        assert!(
            log.contains(&format!("back to the kernel: {reason}")),
            "{log}"
        );
    }
}

#[test]
fn an_option_takes_no_octet() {
    goes_back("option", "a socket option");
}

#[test]
fn a_child_and_its_parent_lose_no_octet() {
    goes_back("forked", "shared");
}

#[test]
fn a_child_that_inherits_loses_no_octet() {
    goes_back("inherited", "shared");
}

#[test]
fn a_passed_descriptor_loses_no_octet() {
    goes_back("passed", "");
}
