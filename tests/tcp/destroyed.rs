//! Sockets that an administrator ends (`ss -K`), on the kernel and with the library: what blocked
//! calls, sets and later calls say, and what the peer sees.

use std::path::PathBuf;

use testkit::{Comparison, Running, SOON, Skip, THREADED_VARIANTS, Variant, needs, or_skip};

fn program() -> PathBuf {
    testkit::c_program("destroyed")
}

/// A case with a peer in the other namespace, and a third host that answers nothing. The library's
/// log of one more run.
fn compared_on(stage: &Comparison, is_ipv6: bool, case: &str, variants: &[Variant]) -> String {
    let mut command = stage.pair.a.command(program());
    command.args(["peer", &testkit::Pair::ADDRESS_A.to_string()]);
    let nobody = if is_ipv6 { "fd77::9" } else { "10.77.0.9" };
    if is_ipv6 {
        command.env("CASE_OVER_IPV6", "real");
    }
    let silent = format!("neigh replace {nobody} lladdr 02:00:00:00:00:99 dev vb nud permanent");
    let words: Vec<_> = silent.split(' ').collect();
    stage.pair.b.ip(&words).unwrap();
    let mut peer = Running::start(command).unwrap();
    assert!(peer.wait_for_output("ready", SOON), "{}", peer.stderr());
    stage.assert_same(&program(), &[case], variants);
    stage.preloaded(&program(), &[case], &[]).unwrap().stderr
}

fn compared(case: &str) -> Result<String, Skip> {
    needs::require(&["ss"])?;
    let log = compared_on(&Comparison::new()?, false, case, THREADED_VARIANTS);
    let stage6 = Comparison::over_real_ipv6()?;
    compared_on(&stage6, true, case, &THREADED_VARIANTS[..1]);
    Ok(log)
}

/// A case whose sockets stay the library's.
fn kept(case: &str) {
    let log = or_skip!(compared(case));
    assert!(log.contains("was ended from outside"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn connections_end_whatever_waits_for_them() {
    kept("waiting");
}

#[test]
fn connections_end_in_any_state() {
    kept("in_other_states");
}

#[test]
fn addresses_of_what_was_ended_are_free() {
    kept("once_more");
}

#[test]
fn a_connection_that_is_being_made_ends() {
    kept("connecting");
}

#[test]
fn a_child_finds_the_end_too() {
    let log = or_skip!(compared("passed_on"));
    assert!(log.contains("was ended from outside"), "{log}");
}

#[test]
fn a_listener_ends_with_what_nobody_has_accepted() {
    let log = or_skip!(compared("listener"));
    assert!(log.contains("past the kernel"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn a_datagram_socket_is_dissolved() {
    let log = or_skip!(compared("datagrams"));
    assert!(log.contains(": offloaded"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}
