//! What calls say of a stream to another process of the host, on the kernel and through memory that
//! both share.

use std::path::{Path, PathBuf};

use testkit::{Comparison, Pair, Running, SOON, Skip, or_skip};

const TOLD: (&str, &str) = ("CASE_WITHIN_HOST", "1");
const SHARES: &[(&str, &str)] = &[TOLD, ("VMA_SHM", "1")];

/// A program, what its peer is, and its cases, of which so many ends of connections share memory.
struct Program {
    name: &'static str,
    peer: fn() -> (PathBuf, Vec<String>),
    cases: &'static [&'static str],
    shared_min: usize,
}

/// The addresses of both ends are this host's.
fn stage(over: fn() -> Result<Comparison, Skip>) -> Result<Comparison, Skip> {
    let stage = over()?;
    for address in [Pair::ADDRESS_A.into(), Pair::IPV6_ADDRESS_A.into()] {
        let address: std::net::IpAddr = address;
        // The other family may be off.
        drop(
            stage
                .pair
                .b
                .ip(&["addr", "add", &address.to_string(), "dev", "lo"]),
        );
    }
    Ok(stage)
}

/// Runs a case beside a peer, both with the library or neither.
fn run(stage: &Comparison, program: &Program, case: &str, with: bool) -> (String, String) {
    let (peer, arguments) = (program.peer)();
    let library = testkit::libvma_path().unwrap();
    let namespace = &stage.pair.b;
    let command = |path: &Path| {
        let mut command = match with {
            true => namespace.preload(path, &library),
            false => namespace.command(path),
        };
        command.envs([("VMA_TRACELEVEL", "debug")]);
        command.envs(SHARES.iter().copied()).envs(stage.told());
        command
    };
    let mut serves = command(&peer);
    serves.args(arguments);
    let mut peer = Running::start(serves).unwrap();
    assert!(peer.wait_for_output("ready", SOON), "{}", peer.stderr());
    let mut asks = command(&testkit::c_program(program.name));
    asks.arg(case);
    let seen = Running::start(asks).unwrap().wait(SOON * 3).unwrap();
    let log = format!("{}--- the peer:\n{}", seen.stderr, peer.stderr());
    (format!("{}{}\n", seen.stdout, seen.status), log)
}

fn compare_over(program: &Program, over: fn() -> Result<Comparison, Skip>) {
    let stage = or_skip!(stage(over));
    let (mut shared, mut differences) = (0, String::new());
    for case in program.cases {
        let (kernel, _) = run(&stage, program, case, false);
        let (memory, log) = run(&stage, program, case, true);
        shared += log.matches("through memory that the peer shares").count();
        if kernel != memory {
            differences += &format!("=== {} {case}\n", program.name);
            differences += &testkit::difference(&kernel, &memory);
            differences += &testkit::log_tail(&log);
        }
    }
    assert!(differences.is_empty(), "{differences}");
    let name = program.name;
    assert!(
        shared >= program.shared_min,
        "{name}: only {shared} ends share memory"
    );
    drop(std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("{name}: {shared} ends of connections shared memory\n").as_bytes(),
    ));
}

fn compare(program: &Program) {
    compare_over(program, Comparison::new);
    compare_over(program, Comparison::over_real_ipv6);
}

fn echoes() -> (PathBuf, Vec<String>) {
    (testkit::c_program("within_host_peer"), Vec::new())
}

fn obeys(program: &str) -> (PathBuf, Vec<String>) {
    let arguments = ["peer".to_owned(), Pair::ADDRESS_A.to_string()];
    (testkit::c_program(program), arguments.to_vec())
}

/// Without two: unread octets that go from the memory to the kernel are an edge once more, and
/// nothing is held back (`TCP_CORK`, `MSG_MORE`).
#[test]
fn states_are_those_of_the_kernel() {
    compare(&Program {
        name: "stream_states",
        peer: || obeys("stream_states"),
        cases: &[
            "peer_closes",
            "peer_ends",
            "we_end",
            "we_read_no_more",
            "we_end_both",
            "reset_idle",
            "reset_unread",
            "reset_ended",
            "reset_by_us_ended",
            "reset_waiting",
            "unconnected",
            "refused_later",
            "once",
            "ends_of_waits",
            "messages",
            "in_part",
        ],
        shared_min: 20,
    });
}

#[test]
fn what_peers_do_seldom_is_as_on_the_kernel() {
    compare(&Program {
        name: "seldom",
        peer: || obeys("seldom"),
        cases: &[
            "urgent",
            "urgent_passed_on",
            "signals",
            "signals_from_the_beginning",
            "options_later",
            "options_first",
            "options_while_waiting",
        ],
        shared_min: 6,
    });
}

#[test]
fn calls_wait_and_end_as_on_the_kernel() {
    compare(&Program {
        name: "stream_calls",
        peer: echoes,
        cases: &[
            "peek_all",
            "low_water",
            "shut_listener",
            "shut_with_connections",
            "buffers",
            "receive_handed_over",
            "send_handed_over",
            "events_handed_over",
            "negative_lengths",
            "dissolved",
        ],
        shared_min: 10,
    });
}

#[test]
fn options_mean_the_same() {
    compare(&Program {
        name: "stream_options",
        peer: echoes,
        cases: &OPTIONS,
        shared_min: 10,
    });
}

const OPTIONS: [&str; 6] = [
    "times",
    "unread",
    "opening_segment",
    "upper_protocol",
    "many_messages",
    "of_datagrams",
];
