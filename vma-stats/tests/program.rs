//! The program as a user runs it. Statistics come from this test process, or from a copy of it that
//! is started to be ended.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use stats::{Capacity, Identity, Segment, SocketSlot};

#[path = "support/publisher.rs"]
mod publisher;

use publisher::Publisher;

const NO_PROCESS: &str =
    "vmastat: Failed to identify process please provide pid of active proccess...";
const CAPACITY: Capacity = Capacity {
    sockets: 1,
    connections: 1,
    rings: 1,
    pools: 1,
    reasons: 2,
    settings: 2,
    rules: 2,
};
fn publish(dir: &Path) -> (Segment, SocketSlot) {
    let segment = Segment::create(dir, &Identity::of_this_process("0.1.0"), CAPACITY).unwrap();
    let socket = segment.claim_socket();
    socket.fd.set(14);
    socket.rx_packets.add(42);
    socket.set_not_offloaded(1, 0);
    segment.reason_names(&["", "because of the test"]);
    (segment, socket)
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vma_stats"));
    command
        .arg("-k")
        .arg(dir)
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    command(dir, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn own_pid() -> String {
    std::process::id().to_string()
}

/// Not a test: what the copy of this program runs. Publishes until it is killed.
#[test]
#[ignore = "started by the tests that need a process to end"]
fn publisher() {
    publisher::publish_until_killed(publish);
}

#[test]
fn one_cycle_prints_the_table_and_nothing_else_on_standard_output() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    for process in [&["-p", &own_pid()][..], &["-f"], &[]] {
        let output = run(dir.path(), &[process, &["-c", "1"]].concat());
        let lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(
            lines[2].starts_with(" 14  Rx:         42       0 "),
            "{lines:?}"
        );
        assert_eq!(lines[4], "-".repeat(79));
        let said = text(&output.stderr);
        assert!(
            said.starts_with("vmastat: stats for application: ")
                && said.contains(&format!(" with pid: {}\n", own_pid())),
            "{said}"
        );
    }
}

/// Once, whatever the number of reports, and only if there is something to explain.
#[test]
fn sockets_that_are_not_offloaded_are_pointed_out() {
    let dir = tempfile::tempdir().unwrap();
    let (_segment, socket) = publish(dir.path());
    let said = |arguments: &[&str]| text(&run(dir.path(), arguments).stderr);
    let hint = "sockets that are not offloaded: 1 of 1; --explain tells why\n";
    assert_eq!(said(&["-c", "2", "-i", "0.01"]).matches(hint).count(), 1);
    for arguments in [["-c", "1", "--explain"], ["-c", "1", "--json"]] {
        assert!(!said(&arguments).contains("--explain"), "{arguments:?}");
    }
    socket.set_offloaded();
    assert!(!said(&["-c", "1"]).contains("--explain"));
}

#[test]
fn name_selects_by_executable() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let own = std::env::current_exe().unwrap();
    let own = own.file_name().unwrap().to_str().unwrap();
    assert!(run(dir.path(), &["-n", own, "-c", "1"]).status.success());
    let output = run(dir.path(), &["-n", "no-such-program", "-c", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with(NO_PROCESS), "{output:?}");
}

#[test]
fn no_process_is_exit_1_with_the_known_sentence_and_usage() {
    let dir = tempfile::tempdir().unwrap();
    let output = run(dir.path(), &["-c", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(
        said.starts_with(NO_PROCESS) && said.contains("Usage: vma_stats"),
        "{said}"
    );

    let output = run(dir.path(), &["-p", &own_pid()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains(&format!("vmastat.{} does not exist", own_pid())));

    let output = run(&dir.path().join("missing"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("cannot list"), "{output:?}");
}

#[test]
fn wrong_command_line_is_exit_1() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    for (arguments, said) in [
        (&["-S", "x"][..], "vmastat: '-S' Invalid fd val: x"),
        (&["-z"], "vmastat: stats for application: "),
        (
            &["-i", "x"],
            "vmastat: invalid value 'x' for '--interval <SECONDS>'",
        ),
        (
            &["--frobnicate"],
            "vmastat: unexpected argument '--frobnicate'",
        ),
    ] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(text(&output.stderr).starts_with(said), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// The process has no interface open, so nothing in it answers.
#[test]
fn requests_that_nobody_answers_say_why() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    for arguments in [&["-z"][..], &["-l", "debug"], &["-D", "2"], &["-S", "0"]] {
        let output = run(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let expected = format!(
            "vmastat: '{}' process {} answers no requests yet: ",
            arguments[0],
            own_pid()
        );
        let said = text(&output.stderr);
        assert!(
            said.contains(&expected) && said.contains("VMA_TRACELEVEL"),
            "{said}"
        );
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let dir = tempfile::tempdir().unwrap();
    let help = run(dir.path(), &["-h"]);
    assert!(
        help.status.success() && text(&help.stdout).contains("--forbid_clean"),
        "{help:?}"
    );
    let version = run(dir.path(), &["-V"]);
    assert!(version.status.success() && text(&version.stdout).starts_with("vma_stats "));
}

/// A library of that name is enough for a process to be taken for one of ours.
#[test]
fn a_process_that_publishes_nothing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libvma.so");
    let Some(some) = library_of_this_process() else {
        eprintln!("skipped: this program is linked to nothing");
        return;
    };
    std::fs::copy(some, &library).unwrap();
    let mut sleeper = Command::new("sleep")
        .arg("60")
        .env("LD_PRELOAD", &library)
        .spawn()
        .unwrap();
    let pid = sleeper.id();
    let said = |arguments: &[&str]| text(&run(dir.path(), arguments).stderr);
    let expected = format!("process {pid} (sleep) runs with libvma, but publishes nothing");
    let cause = "what it accepts from a listener of its parent's";
    let deadline = Instant::now() + Duration::from_secs(60);
    while !said(&[]).contains(&expected) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (any, this, other) = (
        said(&[]),
        said(&["-p", &pid.to_string()]),
        said(&["-p", "1"]),
    );
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert!(any.contains(&expected) && any.contains(cause), "{any}");
    assert!(this.contains(&expected), "{this}");
    assert!(!other.contains("runs with libvma"), "{other}");
}

/// The C library's file.
fn library_of_this_process() -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let path = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .find(|path| path.contains("libgcc_s") || path.contains("libm.so"))?;
    Some(PathBuf::from(path))
}

#[test]
fn explain_tells_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (segment, _socket) = publish(dir.path());
    let extra = segment.claim_socket();
    assert!(!extra.is_published());
    let output = run(dir.path(), &["-c", "1", "--explain"]);
    assert!(
        text(&output.stdout).contains("is not offloaded: because of the test\n"),
        "{output:?}"
    );
    let said = text(&output.stderr);
    assert!(
        said.contains("1 sockets are not shown: there is room for 1"),
        "{said}"
    );
}

#[test]
fn json_is_one_document_per_cycle() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let output = run(dir.path(), &["-c", "3", "-i", "0.01", "--json", "-d", "2"]);
    let lines = text(&output.stdout);
    let documents: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(documents.len(), 3);
    for document in documents {
        assert_eq!(document["process"]["pid"], std::process::id());
        assert_eq!(document["sockets"][0]["rx_packets"], 0);
        assert!(document["interval_sec"].as_f64().unwrap() >= 0.01);
    }
}

#[test]
fn end_of_the_process_ends_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = Publisher::start(dir.path());
    let pid = publisher.id().to_string();
    // The interval is long: the end is noticed in between.
    let mut watcher = command(dir.path(), &["-p", &pid, "-i", "3600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    let mut output = BufReader::new(watcher.stdout.take().unwrap());
    output.read_line(&mut first).unwrap();
    assert!(first.starts_with(" fd "), "{first}");
    publisher.kill();
    assert!(ended_well(&mut watcher));
    let mut said = String::new();
    watcher
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(
        said.ends_with(&format!("vmastat: Proccess {pid} ended - exiting\n")),
        "{said}"
    );
}

#[test]
fn file_of_a_dead_process_is_removed_unless_forbidden() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = Publisher::start(dir.path());
    let file = dir.path().join(format!("vmastat.{}", publisher.id()));
    publisher.kill();
    assert!(file.exists(), "a killed process leaves its file");
    let output = run(dir.path(), &["-F"]);
    assert!(text(&output.stderr).starts_with(NO_PROCESS));
    assert!(file.exists());
    let output = run(dir.path(), &[]);
    assert!(text(&output.stderr).starts_with(NO_PROCESS));
    assert!(!file.exists());
}

#[test]
fn a_directory_in_the_place_of_a_file_is_no_news() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    std::fs::create_dir(dir.path().join("vmastat.4194999")).unwrap();
    let output = run(dir.path(), &["-c", "1"]);
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(!said.contains("cannot remove"), "{said}");
}

/// A real process: its listener is there once, and nothing of the library's own.
#[test]
fn view_5_has_the_program_s_sockets_once() {
    let pair = testkit::or_skip!(testkit::Namespaces::pair());
    let mut server = testkit::preloaded(&pair.b, "sockperf".as_ref()).unwrap();
    let address = testkit::Pair::ADDRESS_B.to_string();
    server.args(["sr", "--tcp", "-i", &address]);
    let server = testkit::Running::start(server).unwrap();
    let dir = std::env::temp_dir().join(format!("vmat-stats-{}", std::process::id()));
    let pid = server.pid().to_string();
    let mut seen = String::new();
    let is_accelerated = testkit::eventually(testkit::SOON, || {
        seen = text(&run(&dir, &["-p", &pid, "-v", "5"]).stdout);
        seen.contains("Yes")
    });
    assert!(is_accelerated, "{seen}");
    assert!(!seen.contains("\nraw"), "{seen}");
    assert_eq!(seen.lines().count(), 2, "{seen}");
}

#[test]
fn interrupt_ends_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let mut watcher = command(dir.path(), &["-i", "3600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(watcher.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    let killed = Command::new("kill")
        .args(["-INT", &watcher.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(ended_well(&mut watcher));
    let mut said = String::new();
    watcher
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert!(
        said.ends_with("vmastat: Got Ctrl-C (interrupted by user)\n"),
        "{said}"
    );
}

#[test]
fn closed_output_ends_the_program_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let mut watcher = command(dir.path(), &["-i", "0.01"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(watcher.stdout.take().unwrap());
    output.read_line(&mut String::new()).unwrap();
    drop(output);
    assert!(ended_well(&mut watcher));
    let mut said = String::new();
    watcher
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    // Which process it is, and that its socket is not offloaded.
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn full_output_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = command(dir.path(), &["-c", "1"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("cannot write to standard output"),
        "{output:?}"
    );
}

/// Waits a bounded time for exit code 0; kills the program otherwise.
fn ended_well(watcher: &mut Child) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while Instant::now() < end {
        if let Some(status) = watcher.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    false
}
