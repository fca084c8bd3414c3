//! The program on a terminal of its own.

#![allow(dead_code, reason = "not every test file uses all of it")]

pub(crate) mod publisher;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// The program, and what its terminal shows.
pub(crate) struct Terminal {
    master: File,
    /// Keeps the terminal's settings to look at when the program has gone.
    pub(crate) slave: OwnedFd,
    child: Ended,
    reader: JoinHandle<()>,
    has_hung_up: Arc<AtomicBool>,
    output: Receiver<Vec<u8>>,
    pub(crate) screen: vt100::Parser,
}

/// Whether the terminal is the one that controls the program: whose end is told by a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controls {
    Yes,
    No,
}

impl Terminal {
    /// A program with a terminal of its own.
    pub(crate) fn start(program: &Path, arguments: &[&str], columns: u16, rows: u16) -> Self {
        Self::start_as(Controls::Yes, program, arguments, columns, rows)
    }

    pub(crate) fn start_as(
        controls: Controls,
        program: &Path,
        arguments: &[&str],
        columns: u16,
        rows: u16,
    ) -> Self {
        let master =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
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
            .args((controls == Controls::Yes).then_some("--ctty"))
            .arg("--wait")
            .arg(program)
            .args(arguments)
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("every machine has setsid(1)");
        let master = File::from(master);
        let reading = master.try_clone().unwrap();
        let (output_tx, output) = channel();
        let has_hung_up = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&has_hung_up);
        let reader = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                let Some(bytes) = read_some(&reading) else {
                    return;
                };
                if !bytes.is_empty() && output_tx.send(bytes).is_err() {
                    return;
                }
            }
        });
        Self {
            master,
            slave: slave.into(),
            child: Ended(child),
            reader,
            has_hung_up,
            output,
            screen: vt100::Parser::new(rows, columns, 0),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    pub(crate) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Until the screen shows something; bounded.
    pub(crate) fn wait_for(&mut self, what: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        while !what(&self.text()) {
            assert!(Instant::now() < end, "still:\n{}", self.text());
            self.look(Duration::from_millis(50));
        }
        self.text()
    }

    /// What the screen shows when something has come, or after this time.
    pub(crate) fn look(&mut self, time: Duration) -> String {
        if let Ok(bytes) = self.output.recv_timeout(time) {
            self.screen.process(&bytes);
        }
        self.text()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// The terminal goes, as with a connection that drops. How the program ends then; `None`: it
    /// goes on for seconds.
    pub(crate) fn hang_up(self) -> Option<ExitStatus> {
        self.has_hung_up.store(true, Ordering::Relaxed);
        let Self {
            master,
            slave,
            mut child,
            reader,
            ..
        } = self;
        reader.join().unwrap();
        drop((master, slave));
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end {
            if let Some(status) = child.0.try_wait().unwrap() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }

    /// Whether lines are edited and echoed, as for a shell.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.slave).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// The program's end. The terminal is as it was.
    pub(crate) fn ended(&mut self) -> bool {
        let end = Instant::now() + Duration::from_secs(30);
        let status = loop {
            if let Some(status) = self.child.0.try_wait().unwrap() {
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

/// What the program has written within a moment; `None` at its end.
fn read_some(mut master: &File) -> Option<Vec<u8>> {
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: 20_000_000,
    };
    let mut ends = [PollFd::new(master, PollFlags::IN)];
    if poll(&mut ends, Some(&moment)).ok()? == 0 {
        return Some(Vec::new());
    }
    let mut buffer = [0; 4096];
    let len = master.read(&mut buffer).ok().filter(|len| *len > 0)?;
    Some(buffer[..len].to_vec())
}

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
