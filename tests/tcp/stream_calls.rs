//! Calls on streams and listeners that wait, and what ends them, on the kernel and with the
//! library.

use std::path::PathBuf;

use testkit::{Comparison, THREADED_VARIANTS, echo_streams};

/// Where the C program finds a peer that accepts, and sends back what comes.
const PORT: u16 = 7103;

fn program() -> PathBuf {
    testkit::c_program("stream_calls")
}

/// A case over IPv4 in every way, and over IPv6 in one. The library's log of one more run over
/// IPv4.
fn compared(case: &str) -> Option<String> {
    let stage = |made| match made {
        Ok(stage) => Some(stage),
        Err(reason) => {
            testkit::skip(reason);
            None
        }
    };
    let stage4: Comparison = stage(Comparison::new())?;
    echo_streams(&stage4.pair.a, testkit::Pair::ADDRESS_A, PORT).unwrap();
    stage4.assert_same(&program(), &[case], THREADED_VARIANTS);
    if let Some(stage6) = stage(Comparison::over_real_ipv6()) {
        echo_streams(&stage6.pair.a, testkit::Pair::IPV6_ADDRESS_A, PORT).unwrap();
        stage6.assert_same(&program(), &[case], &THREADED_VARIANTS[..1]);
    }
    Some(stage4.preloaded(&program(), &[case], &[]).unwrap().stderr)
}

/// A case whose streams stay the library's.
fn kept(case: &str) {
    if let Some(log) = compared(case) {
        assert!(log.contains("past the kernel"), "{log}");
        assert!(!log.contains("back to the kernel"), "{log}");
    }
}

/// A case whose streams go to the kernel.
fn given(case: &str) {
    if let Some(log) = compared(case) {
        assert!(log.contains("past the kernel"), "{log}");
        assert!(log.contains("back to the kernel"), "{log}");
    }
}

#[test]
fn a_look_at_all_waits_for_it() {
    kept("peek_all");
}

#[test]
fn few_octets_wait_for_more() {
    kept("low_water");
}

#[test]
fn a_listener_that_is_shut_down_ends_what_waits() {
    kept("shut_listener");
}

#[test]
fn a_listener_that_is_shut_down_ends_its_queue() {
    kept("shut_with_connections");
}

#[test]
fn options_of_a_listener_are_inherited() {
    kept("options_of_listener");
}

#[test]
fn buffers_are_those_of_the_listener() {
    kept("buffers");
}

#[test]
fn a_receive_call_goes_on_in_the_kernel() {
    given("receive_handed_over");
}

#[test]
fn a_send_call_goes_on_in_the_kernel() {
    given("send_handed_over");
}

#[test]
fn sets_tell_nothing_of_a_hand_over() {
    given("events_handed_over");
}

#[test]
fn lengths_of_addresses_are_looked_at() {
    kept("negative_lengths");
}

#[test]
fn a_dissolved_connection_leaves_a_new_socket() {
    kept("dissolved");
}
