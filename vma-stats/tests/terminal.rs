//! The program on a terminal: screens, keys, sizes, and the terminal as it was afterwards.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use stats::{Capacity, Identity, Segment, SocketSlot};

const CAPACITY: Capacity = Capacity {
    sockets: 4,
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

/// The program, and what its terminal shows.
struct Terminal {
    master: File,
    /// Keeps the terminal's settings to look at when the program has gone.
    slave: OwnedFd,
    child: Child,
    output: Receiver<Vec<u8>>,
    screen: vt100::Parser,
}

/// With a terminal of its own, if setsid(1) is there.
fn start(dir: &Path, columns: u16, rows: u16) -> Terminal {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    let end = || Stdio::from(slave.try_clone().unwrap());
    let child = Command::new("setsid")
        .args([
            "--ctty",
            "--wait",
            env!("CARGO_BIN_EXE_vma_stats"),
            "-i",
            "0.1",
            "-k",
        ])
        .arg(dir)
        .env("TERM", "xterm-256color")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .expect("every machine has setsid(1)");
    let master = File::from(master);
    let mut reading = master.try_clone().unwrap();
    let (output_tx, output) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(len) = reading.read(&mut buffer) {
            if len == 0 || output_tx.send(buffer[..len].to_vec()).is_err() {
                return;
            }
        }
    });
    Terminal {
        master,
        slave: slave.into(),
        child,
        output,
        screen: vt100::Parser::new(rows, columns, 0),
    }
}

impl Terminal {
    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Until the screen shows something; bounded.
    fn wait_for(&mut self, what: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        while !what(&self.text()) {
            assert!(Instant::now() < end, "still:\n{}", self.text());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.screen.process(&bytes);
            }
        }
        self.text()
    }

    fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether lines are edited and echoed, as for a shell.
    fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The program's end. The terminal is as it was.
    fn ended(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "does not end:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        };
        while let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(100)) {
            self.screen.process(&bytes);
        }
        assert!(
            !self.screen.screen().alternate_screen(),
            "the screen of before is back"
        );
        assert!(!self.screen.screen().hide_cursor());
        assert!(self.is_cooked());
        status.success()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn keys_and_sizes_are_followed_and_the_terminal_is_restored() {
    let dir = tempfile::tempdir().unwrap();
    let (_segment, socket) = publish(dir.path());
    let mut terminal = start(dir.path(), 100, 30);
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
    terminal.wait_for(|text| text.contains("filter sockets"));
    terminal.press("x");
    terminal.wait_for(|text| !text.contains("filter sockets"));
    terminal.press("8");
    let pid = std::process::id().to_string();
    terminal.wait_for(|text| text.contains("accelerated") && text.matches(&pid).count() == 2);
    let size = Winsize {
        ws_row: 24,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&terminal.slave, size).unwrap();
    terminal.screen.screen_mut().set_size(24, 80);
    terminal.press("1");
    terminal.wait_for(|text| {
        let last = text.lines().nth(23).unwrap_or_default();
        last.contains("quit") && text.contains("because of")
    });
    terminal.press("z");
    terminal.wait_for(|text| text.contains("takes no requests"));
    terminal.press("q");
    assert!(terminal.ended());
}

#[test]
fn ctrl_c_ends_it_and_restores_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let _published = publish(dir.path());
    let mut terminal = start(dir.path(), 80, 24);
    terminal.wait_for(|text| text.contains("because of"));
    terminal.press("\x03");
    assert!(terminal.ended());
}
