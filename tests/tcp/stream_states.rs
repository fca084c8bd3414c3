//! What calls say of a stream in each of its states, on the kernel and with the library, over both
//! families of addresses.

use std::path::PathBuf;

use testkit::{Comparison, Skip, THREADED_VARIANTS, Variant, or_skip};

fn program() -> PathBuf {
    testkit::c_program("stream_states")
}

/// The library's log of one more run.
fn compared_on(
    stage: fn() -> Result<Comparison, Skip>,
    variants: &[Variant],
    case: &str,
) -> Result<String, Skip> {
    let stage = stage()?;
    let _peer = stage.obeying_peer(&program());
    stage.assert_same(&program(), &[case], variants);
    Ok(stage.preloaded(&program(), &[case], &[]).unwrap().stderr)
}

/// Over IPv4 in every way, over IPv6 and mapped addresses in one. The streams stay past the kernel.
fn compared(case: &str) {
    let one = &THREADED_VARIANTS[..1];
    for log in [
        or_skip!(compared_on(Comparison::new, THREADED_VARIANTS, case)),
        or_skip!(compared_on(Comparison::over_real_ipv6, one, case)),
        or_skip!(compared_on(Comparison::over_ipv6, one, case)),
    ] {
        assert!(log.contains("past the kernel by "), "{log}");
        assert!(!log.contains("back to the kernel"), "{log}");
    }
}

#[test]
fn the_peer_closes() {
    compared("peer_closes");
}

#[test]
fn the_peer_ends() {
    compared("peer_ends");
}

#[test]
fn we_end() {
    compared("we_end");
}

#[test]
fn we_read_no_more() {
    compared("we_read_no_more");
}

#[test]
fn we_end_both_directions() {
    compared("we_end_both");
}

#[test]
fn an_idle_stream_is_reset() {
    compared("reset_idle");
}

#[test]
fn a_stream_with_unread_octets_is_reset() {
    compared("reset_unread");
}

#[test]
fn a_stream_that_the_peer_has_ended_is_reset() {
    compared("reset_ended");
}

#[test]
fn a_stream_that_we_have_ended_is_reset() {
    compared("reset_by_us_ended");
}

#[test]
fn a_connection_is_reset_before_it_is_accepted() {
    compared("reset_waiting");
}

#[test]
fn a_socket_without_a_connection() {
    compared("unconnected");
}

#[test]
fn a_connect_that_does_not_wait_is_refused() {
    compared("refused_later");
}

#[test]
fn edges_of_streams() {
    compared("edges");
}

#[test]
fn events_that_are_told_once() {
    compared("once");
}

#[test]
fn edges_of_listeners() {
    compared("edges_of_listener");
}

#[test]
fn octets_are_held_back() {
    compared("held_back");
}

#[test]
fn calls_that_wait_are_ended() {
    compared("ends_of_waits");
}

#[test]
fn messages_have_no_names() {
    compared("messages");
}

#[test]
fn a_call_that_has_done_a_part_leaves_the_error_to_the_next() {
    compared("in_part");
}
