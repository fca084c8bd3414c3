//! A process with connections past the kernel that a signal ends: what it has written arrives, and
//! the peers are told, as on the kernel; whoever waits for it sees the same end.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Running, SOON, or_skip, preloaded};

const PORT: u16 = 7940;
/// Peers begin to read when the process has ended.
const LATE: Duration = Duration::from_millis(400);
/// How long a peer waits for the next octet, or the end.
const PATIENCE: Duration = Duration::from_secs(10);

fn program() -> PathBuf {
    testkit::c_program("deaths")
}

/// How a peer's stream has ended, and how many octets it had.
fn read_to_end(mut stream: TcpStream) -> (usize, String) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut total, mut buffer) = (0, [0; 65536]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return (total, "end".to_owned()),
            Ok(count) => total += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (total, format!("{:?}", error.kind())),
        }
    }
}

/// What a process that has ended leaves behind: how it ended, and what its three peers saw. The
/// number of octets taken depends on buffers, so only whether all have come.
#[derive(Debug, PartialEq, Eq)]
struct End {
    signal: Option<i32>,
    dumped: bool,
    code: Option<i32>,
    has_all: bool,
    ends: [String; 3],
    idle: usize,
}

fn run(listener: &TcpListener, mut command: Command, way: &str) -> (End, String) {
    let directory =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("death-{way}-{:?}", thread::current()));
    let directory = PathBuf::from(
        directory
            .to_string_lossy()
            .replace(['(', ')', '"', ' '], ""),
    );
    fs::create_dir_all(&directory).unwrap();
    command
        .current_dir(&directory)
        .args([way, &Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    let process = Running::start(command).unwrap();
    let accept = || listener.accept().unwrap().0;
    let (reader, idle, mut unread) = (accept(), accept(), accept());
    let mut question = [0];
    unread.read_exact(&mut question).unwrap();
    unread.write_all(b"an answer").unwrap();
    let peers = [reader, idle, unread].map(|stream| {
        thread::spawn(|| {
            thread::sleep(LATE);
            read_to_end(stream)
        })
    });
    let finished = process.wait(SOON).unwrap();
    let seen = peers.map(|peer| peer.join().unwrap());
    let taken = finished.stdout.lines().next().unwrap_or_default().parse();
    let end = End {
        signal: finished.status.signal(),
        dumped: finished.status.core_dumped(),
        code: finished.status.code(),
        has_all: taken == Ok(seen[0].0),
        idle: seen[1].0,
        ends: seen.map(|(_, end)| end),
    };
    fs::remove_dir_all(directory).unwrap();
    (end, finished.stderr)
}

fn compared(ways: &[&str]) {
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    for way in ways {
        let (expected, _) = run(&listener, pair.a.command(program()), way);
        assert!(expected.has_all, "{way}: {expected:?}");
        let (seen, log) = run(&listener, with_library(&pair.a), way);
        assert_eq!(seen, expected, "{way}: {log}");
        assert!(log.contains("past the kernel by v"), "{way}: {log}");
    }
}

fn with_library(namespace: &Namespace) -> Command {
    let mut command = preloaded(namespace, &program()).unwrap();
    command.env("VMA_TRACELEVEL", "4");
    command
}

#[test]
fn every_signal_that_ends_a_process_hands_over_first() {
    // By numbers: from SIGHUP to SIGSYS, and real-time signals.
    compared(&[
        "1", "2", "3", "4", "5", "6", "7", "8", "10", "11", "12", "13", "14", "15", "16", "24",
        "25", "26", "27", "29", "30", "31", "34", "40", "rtmax",
    ]);
}

#[test]
fn faults_hand_over_first() {
    let mut ways = vec!["abort", "segv", "bus", "ill"];
    if cfg!(target_arch = "x86_64") {
        ways.extend(["fpe", "trap"]);
    }
    compared(&ways);
}

#[test]
fn wherever_the_signal_finds_the_process() {
    compared(&[
        "thread", "kill", "queued", "inside", "polling", "waiting", "busy", "cpu", "blocked",
    ]);
}

#[test]
fn whatever_was_installed_before() {
    compared(&["handled", "once", "twice", "pipe", "stream_pipe"]);
}

#[test]
fn the_ends_of_children_harm_nobody() {
    compared(&["children", "executed"]);
}

#[test]
fn what_does_not_end_the_first_process_of_a_namespace_does_not_here() {
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let unshare = Path::new("/usr/bin/unshare");
    let first = |mut command: Command| {
        command.args(["--pid", "--fork"]).arg(program());
        command
    };
    let mut preloaded = preloaded(&pair.a, unshare).unwrap();
    preloaded.env("VMA_TRACELEVEL", "4");
    let (expected, _) = run(&listener, first(pair.a.command(unshare)), "15");
    assert_eq!(expected.code, Some(3));
    let (seen, log) = run(&listener, first(preloaded), "15");
    assert_eq!(seen, expected, "{log}");
    assert!(log.contains("past the kernel by v"), "{log}");
}

#[test]
fn the_program_sees_the_actions_that_it_has_chosen() {
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let run = |mut command: Command| {
        let address = Pair::ADDRESS_B.to_string();
        command.args(["dispositions", &address, &PORT.to_string()]);
        let process = Running::start(command).unwrap();
        let _peer = listener.accept().unwrap();
        process.wait(SOON).unwrap()
    };
    let expected = run(pair.a.command(program()));
    assert!(expected.stdout.ends_with("done\n"), "{}", expected.stdout);
    let seen = run(with_library(&pair.a));
    assert_eq!(seen.stdout, expected.stdout, "{}", seen.stderr);
    assert!(seen.stderr.contains("past the kernel by v"));
}
