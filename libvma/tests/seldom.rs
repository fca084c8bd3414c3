//! What peers of streams do seldom, on the kernel and with the library: urgent data, options in IP headers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Comparison, Pair, Running, Skip, THREADED_VARIANTS, Variant, or_skip};

const SOON: Duration = Duration::from_secs(30);

fn program() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/seldom.c");
    testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap()
}

const PLAIN: &[Variant] = THREADED_VARIANTS.split_at(1).0;

/// The peer in the other namespace.
fn peer(pair: &Pair, is_ipv6: bool) -> Running {
    let mut command = pair.a.command(program());
    command.args(["peer", &Pair::ADDRESS_A.to_string()]);
    if is_ipv6 {
        command.env("CASE_OVER_IPV6", "real");
    }
    let mut peer = Running::start(command).unwrap();
    assert!(peer.wait_for_output("ready", SOON), "{}", peer.stderr());
    peer
}

/// A case over IPv4; the library's log of one more run.
fn compared_over_ipv4(case: &str) -> Result<String, Skip> {
    let stage = Comparison::new()?;
    let _peer = peer(&stage.pair, false);
    stage.assert_same(&program(), &[case], PLAIN);
    Ok(stage.preloaded(&program(), &[case], &[]).unwrap().stderr)
}

/// The same over both families.
fn compared(case: &str) -> Result<String, Skip> {
    let log = compared_over_ipv4(case)?;
    let stage6 = Comparison::over_real_ipv6()?;
    let _peer = peer(&stage6.pair, true);
    stage6.assert_same(&program(), &[case], PLAIN);
    Ok(log)
}

#[test]
fn urgent_data_is_read_as_the_kernel_has_it() {
    let log = or_skip!(compared("urgent"));
    assert!(!log.contains("back to the kernel"), "{log}");
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
