//! Programs that are started with a socket and use it by its number, on the kernel and with the
//! library.

use testkit::{
    Comparison, Pair, THREADED_VARIANTS, c_program, c_program_with, call_back_streams,
    echo_streams, or_skip,
};

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;

fn compare(case: &str) {
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    call_back_streams(&stage.pair.a, Pair::ADDRESS_A, CALLER_PORT);
    c_program_with("started_alone", &["-static"]);
    let variants = THREADED_VARIANTS.get(..1).unwrap();
    stage.assert_same(&c_program("started"), &[case], variants);
}

#[test]
fn a_connection() {
    compare("streams");
}

#[test]
fn a_listener() {
    compare("listeners");
}

#[test]
fn a_datagram_socket() {
    compare("datagrams");
}

#[test]
fn a_connection_that_the_starter_closes() {
    compare("closed_by_parent");
}

/// Nor do they take the acceleration away.
#[test]
fn programs_that_use_nothing() {
    compare("unused");
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    let seen = stage
        .preloaded(&c_program("started"), &["unused"], &[])
        .unwrap();
    assert!(seen.status.success(), "{}{}", seen.stdout, seen.stderr);
    let stays = !seen.stderr.contains("passed to another process");
    assert!(stays, "{}", seen.stderr);
}
