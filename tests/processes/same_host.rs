//! Two processes with a connection over the loopback interface, which share memory for it
//! (`VMA_SHM`): they see what they see on the kernel.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};

use stats::SocketSnapshot;
use testkit::{Accelerated, SOON, c_program, eventually, preloaded_in_place};

/// The reason's code, which is never another's.
const NO_SHARED_MEMORY: u32 = 49;

const SHARES: (&str, &str) = ("VMA_SHM", "1");

/// What the client of a case has said, with the library at both ends or at none.
fn outcome(case: &str, is_preloaded: bool) -> String {
    let program = c_program("same_host");
    let command = || command(&program, is_preloaded, is_preloaded);
    let mut server = Server::start(command());
    let mut client = command();
    let client = client.args(["ask", &server.port, case]).output().unwrap();
    let log = String::from_utf8_lossy(&client.stderr).into_owned();
    let said = String::from_utf8(client.stdout).unwrap();
    let server_log = server.process.process().stderr();
    format!("{said}{}\n", client.status)
        + if said.is_empty() { &log } else { "" }
        + if said.contains("WRONG") {
            &server_log
        } else {
            ""
        }
}

fn command(program: &Path, is_preloaded: bool, shares: bool) -> Command {
    let mut command = match is_preloaded {
        true => preloaded_in_place(program).unwrap(),
        false => Command::new(program),
    };
    if shares {
        command.envs([SHARES]);
    }
    command
}

struct Server {
    process: Accelerated,
    port: String,
}

impl Server {
    fn start(mut command: Command) -> Self {
        command.arg("serve");
        let mut process = Accelerated::start(command).unwrap();
        let is_ready = eventually(SOON, || process.process().stdout().contains('\n'));
        assert!(is_ready, "{}", process.process().stderr());
        let said = process.process().stdout();
        let port = said
            .trim()
            .rsplit(' ')
            .next()
            .unwrap_or_default()
            .to_owned();
        Self { process, port }
    }
}

fn compare(case: &str) {
    let kernel = outcome(case, false);
    let shared = outcome(case, true);
    assert_eq!(kernel, shared, "{case}");
}

#[test]
fn streams_arrive_octet_for_octet() {
    ["echoes", "bulk", "events"].into_iter().for_each(compare);
}

#[test]
fn calls_and_events_are_those_of_the_kernel() {
    ["edges", "semantics", "out_of_band"]
        .into_iter()
        .for_each(compare);
}

#[test]
fn ends_are_those_of_the_kernel() {
    ["half", "own_half", "unread", "closed", "death"]
        .into_iter()
        .for_each(compare);
}

#[test]
fn a_killed_peer_resets_what_it_has_not_read() {
    ["death_unread", "death_seen_by_sender"]
        .into_iter()
        .for_each(compare);
}

#[test]
fn a_stopped_peer_loses_nothing() {
    ["stopped", "stopped_behind"].into_iter().for_each(compare);
}

#[test]
fn a_child_goes_on_with_the_connection() {
    ["forked", "busy_forks"].into_iter().for_each(compare);
}

/// A client that writes anything anywhere in the memory, while octets go through it, spoils nobody
/// else's connections, and ends no thread of the server and holds none.
#[test]
fn a_hostile_peer_spoils_its_own_connections_only() {
    let program = c_program("same_host");
    let mut serves = command(&program, true, true);
    serves.env("ONLY_ECHOES", "1");
    let mut server = Server::start(serves);
    let pid = server.process.process().pid();
    let threads = || {
        let tasks = format!("/proc/{pid}/task");
        std::fs::read_dir(tasks).map_or(0, Iterator::count)
    };
    let ask = |case: &str| {
        let mut client = command(&program, true, true);
        client.args(["ask", &server.port, case]);
        client
    };
    assert_eq!(ask("echoes").output().unwrap().stdout, b"echoes right\n");
    let before = threads();
    for seed in 0..4 {
        let hostile = ask("hostile")
            .env("SEED", seed.to_string())
            .stdout(Stdio::piped())
            .spawn();
        let honest = ask("echoes").output().unwrap();
        assert_eq!(honest.stdout, b"echoes right\n", "{honest:?}");
        let hostile = hostile.unwrap().wait_with_output().unwrap();
        assert_eq!(hostile.stdout, b"spoils\n", "{hostile:?}");
    }
    assert_eq!(ask("echoes").output().unwrap().stdout, b"echoes right\n");
    let is_free = eventually(SOON, || threads() <= before);
    assert!(is_free, "{} threads, {before} before", threads());
    let log = server.process.process().stderr();
    assert!(!log.contains("panic"), "{log}");
}

/// The server's connections while one stays, with both ends or the server alone preloaded.
fn connections(both: bool, wanted: impl Fn(&SocketSnapshot) -> bool) -> Vec<SocketSnapshot> {
    let program = c_program("same_host");
    let server = Server::start(command(&program, true, true));
    let mut client = command(&program, both, both);
    client.args(["ask", &server.port, "stays"]);
    let mut client = client
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut found = Vec::new();
    eventually(SOON, || {
        found = server.process.sockets();
        found.iter().any(&wanted)
    });
    drop(client.stdin.take());
    let said = client.wait_with_output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    assert!(said.ends_with("stayed\n"), "{said}");
    found.retain(wanted);
    found
}

#[test]
fn octets_go_through_memory_and_readers_see_that() {
    let found = connections(true, |socket| socket.offloaded && socket.rx_bytes > 0);
    let [connection] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(connection.detail, "shared memory");
    let peer = connection.peer.map(|peer| peer.ip());
    assert_eq!(peer, Some(Ipv4Addr::LOCALHOST.into()));
}

#[test]
fn a_connection_whose_peer_has_no_library_is_the_kernels() {
    let found = connections(false, |socket| socket.reason == NO_SHARED_MEMORY);
    assert_eq!(found.len(), 1, "{found:?}");
}
