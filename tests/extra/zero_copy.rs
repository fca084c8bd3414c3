//! The table, packets that are received without a copy, rules and threads.

use testkit::{Comparison, c_program_with, or_skip};

use crate::{HEADERS, said_in, with_echo};

fn said(comparison: &Comparison, case: &str) -> String {
    said_in(comparison, "extra_api", case, &[])
}

#[test]
fn the_table_is_found_and_tells_the_truth() {
    let comparison = or_skip!(Comparison::new());
    let program = c_program_with("extra_api", &[HEADERS]);
    let bare = comparison.on_kernel(&program, &["table"]).unwrap();
    assert_eq!(bare.stdout, "no table\n");
    assert_eq!(
        said(&comparison, "table"),
        "mask 0x313fff\n\
         of a socket: 0\n\
         the same 1\n\
         no room: -1 EBADF\n\
         no length: -1 EBADF\n\
         not supported: -1 EOPNOTSUPP\n\
         end of table\n"
    );
}

#[test]
fn the_header_declares_no_calls() {
    let comparison = or_skip!(Comparison::new());
    let program = c_program_with("extra_names", &[HEADERS]);
    let bare = comparison.on_kernel(&program, &[]).unwrap();
    assert_eq!(bare.stdout, "no table\n");
    let preloaded = comparison.preloaded(&program, &[], &[]).unwrap();
    assert_eq!(preloaded.stdout, "a table\n");
}

#[test]
fn datagrams_are_received_without_a_copy() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(
        said(&comparison, "datagrams"),
        "small: -1 ENOBUFS\n\
         no room: -1 ENOBUFS\n\
         first: 20\n  flags 0x40000, from port known, 16\n  \
         1 packets, the first of 1 parts, 20 octets: abcdefgh\n\
         of another: -1 ENOENT\n\
         free: 0\n\
         twice: -1 ENOENT\n\
         none: -1 ENOENT\n\
         of none: -1 ENOENT\n\
         no socket: -1 EINVAL\n\
         recv: 20\n  bcdefghi\n\
         peek: 20\n  flags 0x2, from port known, 16\n\
         forced: 20\n  flags 0x40000, from port known, 16\n  \
         1 packets, the first of 1 parts, 20 octets: cdefghij\n\
         nothing: -1 EAGAIN\n\
         of the kernel's, nothing: -1 EAGAIN\n\
         past close: -1 EINVAL\n\
         end of datagrams\n"
    );
}

#[test]
fn a_program_may_hold_more_than_there_are_frames() {
    let comparison = or_skip!(Comparison::new());
    let expected = "held 12000, wrong 0\nend of hoarded\n";
    assert_eq!(said(&comparison, "hoarded"), expected);
}

#[test]
fn streams_are_received_without_a_copy() {
    let comparison = or_skip!(with_echo());
    assert_eq!(
        said(&comparison, "streams"),
        "first: 8\n  flags 0x40000, from port unknown, 0\n  \
         1 packets, the first of 1 parts, 8 octets: question\n\
         nothing: -1 EAGAIN\n\
         free: 0\n\
         twice: -1 ENOENT\n\
         recv: 5\n  again...\n\
         the end: 0\n  flags 0, from port unknown, 0\n\
         end of streams\n"
    );
}

#[test]
fn what_is_held_keeps_the_window_closed() {
    let comparison = or_skip!(with_echo());
    assert_eq!(
        said(&comparison, "window"),
        "as much as the buffer has room for 1\n\
         free: 0\n\
         the window is open again 1\n\
         end of window\n"
    );
}

/// What a socket says that is the library's, and one that is the kernel's.
const OURS: &str = "  flags 0x40000, from port known, 16\n  free: -1 ENOENT\n";
const KERNELS: &str = "  flags 0, from port known, 16\n  free: -1 EINVAL\n";

fn settings(by_default: &str, others: &str) -> String {
    format!(
        "no rule: -1 EINVAL\n\
         nothing: -1 EINVAL\n\
         by default: 20\n{by_default}\
         a rule: 0\n\
         by the rule: 20\n{KERNELS}\
         thread_offload: 0\n\
         not offloaded: 20\n{KERNELS}\
         of another thread: 20\n{others}\
         thread_offload: 0\n\
         offloaded: 20\n{OURS}\
         dump: 0\n\
         all: 0\n\
         none: -1 EINVAL\n\
         end of settings\n"
    )
}

#[test]
fn rules_and_threads_decide_over_new_sockets() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(said(&comparison, "settings"), settings(OURS, OURS));
    let off = [("VMA_OFFLOADED_SOCKETS", "0")];
    let said = said_in(&comparison, "extra_api", "settings", &off);
    assert_eq!(said, settings(KERNELS, KERNELS));
}

#[test]
fn the_headers_of_what_is_sent_are_told() {
    let comparison = or_skip!(with_echo());
    assert_eq!(
        said(&comparison, "headers"),
        "no peer: -1 ENOTCONN\n\
         length: 0\n\
         42 octets\n\
         no room: -1 ENOBUFS\n\
         headers: 0\n\
         42 octets, of IPv4 1, of UDP 1, from self 1, to the peer 1\n\
         no length: -1 EINVAL\n\
         no socket: -1 EINVAL\n\
         of a stream: 0\n\
         34 octets, of TCP 1\n\
         end of headers\n"
    );
}

#[test]
fn rings_are_of_packets() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(
        said(&comparison, "profiles"),
        "packets: 0\n\
         again: 0\n\
         the same 1, a key 1\n\
         memory of the program's: -1 EOPNOTSUPP\n\
         no key: -1 EINVAL\n\
         no profile: -1 EINVAL\n\
         a ring of its own: 0\n\
         of no profile: -1 EINVAL\n\
         received: 20\n  abcdefgh\n\
         end of profiles\n"
    );
}
