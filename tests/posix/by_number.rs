//! System calls by number, through `syscall(2)`, on sockets past the kernel: as on the kernel.

use testkit::{Comparison, Pair, THREADED_VARIANTS, call_back_streams, echo_streams, or_skip};

const ECHO_PORT: u16 = 7100;
const CALLER_PORT: u16 = 7101;

fn compare(case: &str) {
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    call_back_streams(&stage.pair.a, Pair::ADDRESS_A, CALLER_PORT);
    let program = testkit::c_program("by_number");
    stage.assert_same(&program, &[case], THREADED_VARIANTS);
}

#[test]
fn a_connection() {
    compare("stream");
}

#[test]
fn a_listener() {
    compare("listener");
}

#[test]
fn a_datagram_socket() {
    compare("datagrams");
}

#[test]
fn a_thread_that_waited_before() {
    compare("early_waiter");
}
