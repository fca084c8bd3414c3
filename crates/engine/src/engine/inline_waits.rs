//! When it is looked whether the program waits for sockets past the library
//! (`sockets/passed_by.rs`).

use std::time::Duration;

use dev_core::Backend;
use tcp::Instant;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task, Watched};
use crate::sockets::passed_by::Looks;

/// Two of these are what such a program waits longer for the first packet.
const INTERVAL: Duration = Duration::from_millis(25);
/// How often is looked where no packet was seen to come: whoever polls takes them before they are
/// seen.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);
/// Looks in a row without any socket that is ready, before it rests until a packet comes.
const LOOKS_IN_VAIN: u32 = 20;

/// Looks for them.
pub(super) struct InlineWaits<B: Backend> {
    engine: &'static Engine<B>,
    looks: Looks,
    /// How many looks are left until it rests.
    left: u32,
}

impl<B: Backend> InlineWaits<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            looks: Looks::default(),
            left: 0,
        }
    }
}

impl<B: Backend> Task for InlineWaits<B> {
    fn watch(&self, watched: &mut Watched) {
        if self.left == 0 {
            let fds = self.engine.links.wait_fds();
            fds.for_each(|fd| watched.add(fd, libc::POLLIN));
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        let has_come = watched.iter().any(|it| it.revents != 0);
        if has_come || self.engine.look_for_waits_past_it(&mut self.looks) {
            self.left = LOOKS_IN_VAIN;
        } else {
            self.left = self.left.saturating_sub(1);
        }
        Next::In(if self.left > 0 {
            INTERVAL * self.looks.pauses()
        } else {
            IDLE_INTERVAL
        })
    }
}
