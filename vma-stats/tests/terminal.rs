//! The program on a terminal: screens, keys, sizes, and the terminal as it was afterwards.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::termios::{Winsize, tcsetwinsize};
use stats::{Capacity, Identity, Segment, SocketSlot};

mod support;

use support::publisher::{self, Publisher};
use support::{Controls, Terminal};

const CAPACITY: Capacity = Capacity {
    sockets: 4,
    connections: 4,
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
    socket.protocol.set(stats::PROTOCOL_UDP);
    socket.local.set("10.1.2.3:4791".parse().unwrap());
    socket.set_not_offloaded(1, 0);
    segment.reason_names(&["", "because of the test"]);
    segment.reason_advice(&["", "write another test"]);
    (segment, socket)
}

/// The program on a terminal, with its statistics in `dir`.
fn start(dir: &Path, arguments: &[&str], columns: u16, rows: u16) -> Terminal {
    let program = Path::new(env!("CARGO_BIN_EXE_vma_stats"));
    let dir = dir.to_str().unwrap();
    Terminal::start(program, &[&["-k", dir], arguments].concat(), columns, rows)
}

#[test]
fn keys_and_sizes_are_followed_and_the_terminal_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (_segment, socket) = publish(dir.path());
    let mut terminal = start(dir.path(), &["-i", "0.1"], 100, 30);
    terminal.wait_for(|text| text.contains("because of"));
    assert!(!terminal.is_cooked());
    socket.set_offloaded();
    terminal.wait_for(|text| text.contains("1/1 accelerated"));
    socket.set_not_offloaded(1, 0);
    terminal.press("\r");
    terminal.wait_for(|text| text.contains("write another"));
    terminal.press("\x1b");
    terminal.wait_for(|text| text.contains("detail"));
    terminal.press("?");
    terminal.wait_for(|text| text.contains("asks first"));
    terminal.press("x");
    terminal.wait_for(|text| !text.contains("asks first"));
    terminal.press("8");
    let pid = std::process::id().to_string();
    terminal.wait_for(|text| text.contains("program") && text.matches(&pid).count() == 2);
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal.slave, size).unwrap();
    terminal.screen.screen_mut().set_size(24, 80);
    // A key that comes in the same moment is seen with the next one only.
    terminal.wait_for(|text| text.contains("8Procs"));
    terminal.press("1");
    terminal.wait_for(|text| {
        let last = text.lines().nth(23).unwrap_or_default();
        last.contains("quit") && text.contains("because of")
    });
    terminal.press("z");
    terminal.wait_for(|text| text.contains("z again"));
    terminal.press("z");
    terminal.wait_for(|text| text.contains("takes no requests"));
    terminal.press("q");
    assert!(terminal.ended());
}

#[test]
fn ctrl_c_ends_it_and_restores_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let mut terminal = start(dir.path(), &["-i", "0.1"], 80, 24);
    terminal.wait_for(|text| text.contains("because of"));
    terminal.press("\x03");
    assert!(terminal.ended());
}

/// Not a test: what is started to be killed. Publishes until then.
#[test]
#[ignore = "started by the tests that need a process to end"]
fn publisher() {
    publisher::publish_until_killed(|dir| {
        let (segment, socket) = publish(dir);
        std::thread::spawn(move || {
            loop {
                socket.rx_packets.add(100);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        segment
    });
}

/// The process is gone in a moment, without a word. What it did stays to be looked at.
#[test]
fn end_of_the_process_is_shown_and_the_terminal_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let mut publisher = Publisher::start(dir.path());
    let mut terminal = start(dir.path(), &["-i", "0.1"], 80, 24);
    terminal.wait_for(|text| text.contains("because of"));
    // SIGKILL
    publisher.kill();
    let text = terminal.wait_for(|text| text.contains("process ended"));
    assert!(text.contains("because of"), "{text}");
    terminal.press("\r");
    terminal.wait_for(|text| text.contains("write another"));
    terminal.press("q");
    assert!(terminal.ended());
}

/// Several processes: they are what is shown first, and then together.
#[test]
fn several_processes_are_shown() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let mut publisher = Publisher::start(dir.path());
    let mut terminal = start(dir.path(), &["-i", "0.1"], 100, 24);
    let pids = [publisher.id(), std::process::id()].map(|pid| pid.to_string());
    let shows_both = |text: &str| pids.iter().all(|pid| text.contains(pid));
    terminal.wait_for(|text| text.contains("2 processes") && shows_both(text));
    terminal.press("a");
    terminal.wait_for(|text| text.contains("2 of 2 sockets") && shows_both(text));
    publisher.kill();
    terminal.wait_for(|text| !text.contains(&pids[0]) || text.contains("ended"));
    terminal.press("q");
    assert!(terminal.ended());
}

#[test]
fn a_signal_ends_it_and_restores_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    for signal in ["-TERM", "-HUP", "-INT"] {
        let mut terminal = start(dir.path(), &["-i", "0.1"], 80, 24);
        terminal.wait_for(|text| text.contains("because of"));
        let pid = terminal.pid().to_string();
        let killed = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(killed.success());
        assert!(terminal.ended());
    }
}

/// With the signal that a terminal's end is to those whom it controls, and without.
#[test]
fn it_ends_with_its_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let program = Path::new(env!("CARGO_BIN_EXE_vma_stats"));
    let arguments = ["-k", dir.path().to_str().unwrap(), "-i", "0.1"];
    for controls in [Controls::Yes, Controls::No] {
        let mut terminal = Terminal::start_as(controls, program, &arguments, 80, 24);
        terminal.wait_for(|text| text.contains("because of"));
        let status = terminal.hang_up();
        assert!(
            status.is_some_and(|status| status.success()),
            "{controls:?}: {status:?}"
        );
    }
}

/// Other processes are looked for now and then, and looked at once an interval all the same.
#[test]
fn rates_of_other_processes_are_those_of_an_interval() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let publisher = Publisher::start(dir.path());
    let mut terminal = start(dir.path(), &["-i", "0.5"], 100, 24);
    let pid = publisher.id().to_string();
    let rate = |text: &str| -> Option<u32> {
        let row = text.lines().find(|line| line.contains(&pid))?;
        let rate = row.split_whitespace().nth(3)?;
        rate.parse()
            .ok()
            .or_else(|| rate.contains('k').then_some(1000))
    };
    terminal.wait_for(|text| rate(text).is_some_and(|rate| rate > 0));
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let text = terminal.look(Duration::from_millis(50));
        assert!(rate(&text).is_some_and(|rate| rate > 50), "{text}");
    }
    terminal.press("q");
    assert!(terminal.ended());
}

/// A program that is asked for by its name may come later, end, and come again.
#[test]
fn a_name_is_waited_for_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let name = own.file_name().unwrap().to_str().unwrap();
    let mut terminal = start(dir.path(), &["-n", name, "-i", "0.1"], 100, 24);
    terminal.wait_for(|text| text.contains("waiting for a process"));
    for _ in 0..2 {
        let mut publisher = Publisher::start(dir.path());
        let title = format!("pid {} ", publisher.id());
        terminal.wait_for(|text| text.contains(&title) && text.contains("because of"));
        publisher.kill();
        terminal.wait_for(|text| text.contains("process ended"));
    }
    terminal.press("q");
    assert!(terminal.ended());
    let mut terminal = start(dir.path(), &["-n", "nobody"], 100, 24);
    terminal.wait_for(|text| text.contains("waiting for a process nobody"));
    terminal.press("\x03");
    assert!(terminal.ended());
}
