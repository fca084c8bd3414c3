//! Streams and listeners that are ended from outside (`tcp/destroyed.rs`), as far as the internal
//! thread has to do with it.

use std::time::Duration;

use dev_core::Backend;
use tcp::Instant;

use crate::engine::kinds::AnySocket;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task, Watched, is_lost};

/// How often is looked for connections that are not watched yet.
const INTERVAL: Duration = Duration::from_millis(500);
/// So many come to be watched under one lock, a few microseconds.
const AT_ONCE: usize = 16;

/// Watches for it.
pub(super) struct Destroyed<B: Backend> {
    engine: &'static Engine<B>,
    /// The program has closed the descriptor past every hook.
    is_lost: bool,
}

impl<B: Backend> Destroyed<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            is_lost: false,
        }
    }
}

impl<B: Backend> Task for Destroyed<B> {
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.tcp.destroyed_fd()
            && !self.is_lost
        {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        self.is_lost |= is_lost(watched);
        if self.is_lost {
            return Next::OnEvent;
        }
        if watched.iter().any(|it| it.revents != 0) {
            self.engine.tcp.follow_destroyed(self.engine);
        }
        self.engine.watch_for_destruction();
        Next::In(INTERVAL)
    }
}

impl<B: Backend> Engine<B> {
    fn watch_for_destruction(&self) {
        if !self.tcp.has_streams() {
            return;
        }
        let streams = self.sockets().filter_map(|(_, socket)| match socket {
            AnySocket::Tcp(socket) => socket.is_to_be_watched().then_some(socket),
            AnySocket::Udp(_) => None,
        });
        let streams: Vec<_> = streams.collect();
        for some in streams.chunks(AT_ONCE) {
            let _control = self.control();
            for socket in some.iter().filter(|it| it.is_to_be_watched()) {
                socket.watch_for_destruction();
            }
        }
    }
}
