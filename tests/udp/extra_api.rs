//! The extra API (`mellanox/vma_extra.h`), as a C program uses it that was compiled against the
//! header that is shipped.

use testkit::{Comparison, Namespaces, Pair, Skip, c_program_with, echo_streams, or_skip};

const ECHO_PORT: u16 = 7103;

const HEADERS: &str = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../packaging/include");

/// What a case says with the library.
fn said(comparison: &Comparison, case: &str) -> String {
    said_in(comparison, case, &[])
}

fn said_in(comparison: &Comparison, case: &str, environment: &[(&str, &str)]) -> String {
    let program = c_program_with("extra_api", &[HEADERS]);
    let finished = comparison
        .preloaded(&program, &[case], environment)
        .unwrap();
    assert!(finished.status.success(), "{}", finished.stdout);
    finished.stdout
}

#[test]
fn the_table_is_found_and_tells_the_truth() {
    let comparison = or_skip!(Comparison::new());
    let program = c_program_with("extra_api", &[HEADERS]);
    let bare = comparison.on_kernel(&program, &["table"]).unwrap();
    assert_eq!(bare.stdout, "no table\n");
    assert_eq!(
        said(&comparison, "table"),
        "mask 0x3e\n\
         of a socket: 0\n\
         the same 1\n\
         no room: -1 EBADF\n\
         no length: -1 EBADF\n\
         not supported: -1 EOPNOTSUPP\n\
         nor this: -1 EOPNOTSUPP\n\
         end of table\n"
    );
}

#[test]
fn datagrams_are_received_without_a_copy() {
    let comparison = or_skip!(Comparison::new());
    assert_eq!(
        said(&comparison, "datagrams"),
        "mask 0x3e\n\
         small: -1 ENOBUFS\n\
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
    let expected = "mask 0x3e\nheld 12000, wrong 0\nend of hoarded\n";
    assert_eq!(said(&comparison, "hoarded"), expected);
}

/// With somebody who sends back what streams bring.
fn with_echo() -> Result<Comparison, Skip> {
    let pair = Namespaces::pair()?;
    echo_streams(&pair.a, Pair::ADDRESS_A, ECHO_PORT).unwrap();
    Ok(Comparison::over(pair))
}

#[test]
fn streams_are_received_without_a_copy() {
    let comparison = or_skip!(with_echo());
    assert_eq!(
        said(&comparison, "streams"),
        "mask 0x3e\n\
         first: 8\n  flags 0x40000, from port unknown, 0\n  \
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
        "mask 0x3e\n\
         as much as the buffer has room for 1\n\
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
        "mask 0x3e\n\
         no rule: -1 EINVAL\n\
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
    let said = said_in(&comparison, "settings", &off);
    assert_eq!(said, settings(KERNELS, KERNELS));
}
