//! Keys and the mouse, read by a thread: crossterm does not return from the reading of a terminal
//! that has gone, nor before a sequence of bytes is complete.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crossterm::event::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What comes from the terminal.
pub(super) struct Input(Receiver<io::Result<Event>>);

impl Input {
    /// The thread ends with the program.
    pub(super) fn open() -> io::Result<Self> {
        let (event_tx, event_rx) = channel();
        thread::Builder::new()
            .name("input".to_owned())
            .spawn(move || {
                loop {
                    let event = event::read();
                    let is_last = event.is_err();
                    if event_tx.send(event).is_err() || is_last {
                        return;
                    }
                }
            })?;
        Ok(Self(event_rx))
    }

    /// What has come, or comes within this time.
    pub(super) fn wait(&self, time: Duration) -> io::Result<Option<Event>> {
        match self.0.recv_timeout(time) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Whether nobody will ever see this terminal again.
pub(super) fn is_gone() -> bool {
    let input = io::stdin();
    let mut ends = [PollFd::new(&input, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let answer = poll(&mut ends, Some(&now));
    answer.is_ok()
        && ends[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)
}
