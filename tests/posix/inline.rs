//! System calls by instructions of the program's own, which no hook sees: its sockets go to the
//! kernel, and it goes on.

use std::path::PathBuf;

use testkit::{Comparison, Pair, THREADED_VARIANTS, call_back_streams, echo_streams, or_skip};

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;
const REASON: &str = "the program waits past the library, by instructions of its own";

fn program(stage: &Comparison) -> PathBuf {
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    call_back_streams(&stage.pair.a, Pair::ADDRESS_A, CALLER_PORT);
    testkit::c_program("inline")
}

fn compare(cases: &[&str]) {
    let stage = or_skip!(Comparison::new());
    let program = program(&stage);
    for case in cases {
        stage.assert_same(&program, &[case], THREADED_VARIANTS);
    }
}

#[test]
fn datagrams() {
    compare(&["datagrams_poll", "datagrams_epoll", "datagrams_blocking"]);
}

#[test]
fn datagrams_by_other_calls() {
    compare(&["datagrams_ppoll", "datagrams_select", "datagrams_pselect"]);
}

#[test]
fn datagrams_in_other_sets() {
    compare(&["datagrams_edge", "datagrams_nested"]);
}

#[test]
fn connections() {
    compare(&["client_poll", "client_epoll", "client_edge"]);
}

#[test]
fn listeners() {
    compare(&["server_poll", "server_epoll", "server_blocking"]);
}

#[test]
fn a_runtime() {
    compare(&["runtime"]);
}

#[test]
fn calls_that_are_not_to_wait() {
    compare(&["nonblocking"]);
}

/// It is said once, for all sockets that follow.
#[test]
fn the_log_says_so_once() {
    let stage = or_skip!(Comparison::new());
    let seen = stage.preloaded(&program(&stage), &["client_epoll"], &[]);
    let log = seen.unwrap().stderr;
    let warnings = log
        .lines()
        .filter(|line| line.contains("WARNING") && line.contains(REASON));
    assert_eq!(warnings.count(), 1, "{log}");
}

/// Who does not read for a while is not taken for such a program, although others sleep.
#[test]
fn sockets_that_are_not_read_stay_accelerated() {
    compare(&["unread"]);
    let stage = or_skip!(Comparison::new());
    let seen = stage.preloaded(&program(&stage), &["unread"], &[]).unwrap();
    assert!(
        seen.status.success() && !seen.stderr.contains(REASON),
        "{}",
        seen.stderr
    );
}
