//! What peers of streams do seldom, on the kernel and with the library: urgent data, options in IP
//! headers, silence.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use testkit::{
    Comparison, Namespaces, Pair, RawLink, Running, SOON, Skip, THREADED_VARIANTS, Variant,
    obeying_peer, or_skip, preloaded,
};

fn program() -> PathBuf {
    testkit::c_program("seldom")
}

const PLAIN: &[Variant] = THREADED_VARIANTS.split_at(1).0;

/// A case over IPv4; the library's log of one more run.
fn compared_over_ipv4(case: &str) -> Result<String, Skip> {
    let stage = Comparison::new()?;
    let _peer = stage.obeying_peer(&program());
    stage.assert_same(&program(), &[case], PLAIN);
    Ok(stage.preloaded(&program(), &[case], &[]).unwrap().stderr)
}

/// The same over both families.
fn compared(case: &str) -> Result<String, Skip> {
    let log = compared_over_ipv4(case)?;
    let stage6 = Comparison::over_real_ipv6()?;
    let _peer = stage6.obeying_peer(&program());
    stage6.assert_same(&program(), &[case], PLAIN);
    Ok(log)
}

#[test]
fn urgent_data_is_read_as_the_kernel_has_it() {
    let log = or_skip!(compared("urgent"));
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn urgent_data_goes_along_to_the_kernel() {
    let log = or_skip!(compared("urgent_passed_on"));
    assert!(log.matches("back to the kernel").count() >= 5, "{log}");
}

#[test]
fn a_socket_with_an_owner_raises_signals() {
    let log = or_skip!(compared("signals"));
    assert_eq!(log.matches("the kernel (F_SETOWN)").count(), 5, "{log}");
}

#[test]
fn an_owner_from_the_beginning_is_told_too() {
    let log = or_skip!(compared("signals_from_the_beginning"));
    assert_eq!(log.matches("the kernel (F_SETOWN)").count(), 1, "{log}");
}

#[test]
fn segments_with_options_are_received() {
    let log = or_skip!(compared_over_ipv4("options_later"));
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn who_begins_with_options_is_let_in() {
    or_skip!(compared("options_first"));
}

#[test]
fn options_come_before_the_connection_is_accepted() {
    or_skip!(compared_over_ipv4("options_while_waiting"));
}

/// What a program says whose peer vanishes when it asks for that, and its log.
fn left_alone(pair: &Pair, mut command: Command) -> (String, String) {
    let _peer = obeying_peer(&pair.a, &program());
    command.arg("vanished");
    let mut running = Running::start_interactive(command).unwrap();
    let asks = running.wait_for_output("vanish\n", SOON);
    assert!(asks, "{}{}", running.stdout(), running.stderr());
    let address = format!("{}/24", Pair::ADDRESS_A);
    pair.a.ip(&["addr", "del", &address, "dev", "va"]).unwrap();
    writeln!(running.stdin().unwrap()).unwrap();
    let finished = running.wait(SOON).unwrap();
    pair.a.ip(&["addr", "add", &address, "dev", "va"]).unwrap();
    (finished.stdout, finished.stderr)
}

/// The peer's Ethernet address is known, or asked for in vain.
fn given_up(is_known: bool) {
    let pair = or_skip!(Namespaces::pair());
    let retries = || fs::write("/proc/sys/net/ipv4/tcp_retries2", "1");
    pair.b.enter(retries).unwrap();
    if is_known {
        let mac = RawLink::open(&pair.a, "va").unwrap().mac();
        let mac = mac.map(|octet| format!("{octet:02x}")).join(":");
        let address = Pair::ADDRESS_A;
        let known = format!("neigh replace {address} lladdr {mac} dev vb nud permanent");
        let words: Vec<_> = known.split(' ').collect();
        pair.b.ip(&words).unwrap();
    }
    let (expected, log) = left_alone(&pair, pair.b.command(program()));
    assert_eq!(expected.matches("ETIMEDOUT").count(), 6, "{expected}{log}");
    assert_eq!(expected.matches("in time").count(), 6, "{expected}{log}");
    let mut command = preloaded(&pair.b, &program()).unwrap();
    command.env("VMA_TRACELEVEL", "4");
    let (seen, log) = left_alone(&pair, command);
    assert_eq!(expected, seen, "{log}");
    assert!(log.contains(": past the kernel by "), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn peers_that_vanish_are_given_up_as_by_the_kernel() {
    given_up(true);
}

#[test]
fn peers_whose_neighbour_is_gone_are_given_up_too() {
    given_up(false);
}
