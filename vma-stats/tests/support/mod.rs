//! The program on a terminal of its own.

#![allow(dead_code, reason = "not every test file uses all of it")]

pub(crate) mod publisher;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// The program, and what its terminal shows.
pub(crate) struct Terminal {
    master: File,
    /// Keeps the terminal's settings to look at when the program has gone.
    pub(crate) slave: OwnedFd,
    child: Child,
    output: Receiver<Vec<u8>>,
    pub(crate) screen: vt100::Parser,
}

impl Terminal {
    /// A program with a terminal of its own.
    pub(crate) fn start(program: &Path, arguments: &[&str], columns: u16, rows: u16) -> Self {
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
            .args(["--ctty", "--wait"])
            .arg(program)
            .args(arguments)
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
        Self {
            master,
            slave: slave.into(),
            child,
            output,
            screen: vt100::Parser::new(rows, columns, 0),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Until the screen shows something; bounded.
    pub(crate) fn wait_for(&mut self, what: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(30);
        while !what(&self.text()) {
            assert!(Instant::now() < end, "still:\n{}", self.text());
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(50)) {
                self.screen.process(&bytes);
            }
        }
        self.text()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
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
