//! What the internal thread does when the network's configuration has changed.

use std::time::Duration;

use dev_core::Backend;
use links::netconf_network::NetconfNetwork;
use tcp::Instant;

use crate::engine::Engine;

use crate::process::event_loop::{Next, Task, Watched, is_lost};

/// The kernel learns something of paths, by ICMP, or is told of segments that did not arrive.
pub(super) struct Paths<B: Backend> {
    engine: &'static Engine<B>,
    network: NetconfNetwork,
    /// The program has closed the descriptor past every hook.
    is_lost: bool,
    /// Something was learnt and is not looked at yet.
    is_pending: bool,
}

/// How long the kernel is given for what an ICMP message says of a path: it shows the message
/// before it acts. This also bounds how often a flood of them is looked at.
const PATH_DELAY: Duration = Duration::from_millis(2);

impl<B: Backend> Paths<B> {
    pub(super) fn new(engine: &'static Engine<B>, network: NetconfNetwork) -> Self {
        Self {
            engine,
            network,
            is_lost: false,
            is_pending: false,
        }
    }
}

impl<B: Backend> Task for Paths<B> {
    fn watch(&self, watched: &mut Watched) {
        if !self.is_lost && !self.is_pending {
            for fd in self.network.paths_fds() {
                watched.add(fd, libc::POLLIN);
            }
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        if is_lost(watched) {
            self.is_lost = true;
        } else if watched.iter().any(|it| it.revents != 0) {
            self.is_pending = true;
            return Next::In(PATH_DELAY);
        } else if std::mem::take(&mut self.is_pending) {
            let (change, errors) = self.network.take_paths();
            self.engine.take_segment_errors(&errors);
            self.engine.follow_change(&change);
        }
        Next::OnEvent
    }
}

/// IPsec policies come or go.
pub(super) struct Ipsec<B: Backend> {
    engine: &'static Engine<B>,
    network: NetconfNetwork,
    /// The program has closed the descriptor past every hook.
    is_lost: bool,
}

impl<B: Backend> Ipsec<B> {
    pub(super) fn new(engine: &'static Engine<B>, network: NetconfNetwork) -> Self {
        Self {
            engine,
            network,
            is_lost: false,
        }
    }
}

impl<B: Backend> Task for Ipsec<B> {
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.network.ipsec_fd()
            && !self.is_lost
        {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        self.is_lost |= is_lost(watched);
        if watched.iter().any(|it| it.revents != 0) {
            self.engine.follow_network();
        }
        Next::OnEvent
    }
}

/// Connections of the kernel's end whose segments are left to it.
pub(super) struct Exemptions<B: Backend> {
    engine: &'static Engine<B>,
    /// Others that end are given time to do so, too.
    is_paused: bool,
}

/// How long: the kernel keeps about 200 ends.
const ENDS_PAUSE: Duration = Duration::from_millis(20);

impl<B: Backend> Exemptions<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            is_paused: false,
        }
    }
}

impl<B: Backend> Task for Exemptions<B> {
    /// Whoever makes the first of them calls the thread.
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.ends_fd()
            && !self.is_paused
        {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        let is_lost = is_lost(watched);
        let was_paused = std::mem::take(&mut self.is_paused);
        if !is_lost && !was_paused && watched.iter().any(|it| it.revents != 0) {
            self.is_paused = true;
            return Next::In(ENDS_PAUSE);
        }
        let again = self.engine.look_after_exempt(is_lost);
        again.map_or(Next::OnEvent, Next::In)
    }
}

/// Links, addresses, routes or neighbours change.
pub(super) struct NetworkChanges<B: Backend> {
    engine: &'static Engine<B>,
    network: NetconfNetwork,
}

impl<B: Backend> NetworkChanges<B> {
    pub(super) fn new(engine: &'static Engine<B>, network: NetconfNetwork) -> Self {
        Self { engine, network }
    }
}

impl<B: Backend> Task for NetworkChanges<B> {
    fn watch(&self, watched: &mut Watched) {
        watched.add(self.network.events_fd(), libc::POLLIN);
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        if is_lost(watched) {
            log::error!("the network configuration is not followed any more");
            self.engine.sharing.stop_listening();
            return Next::EndThread;
        }
        if watched.iter().any(|it| it.revents != 0) {
            // Also after an overrun, which shows as an error.
            self.engine.follow_network();
            self.engine.look_for_ways();
        }
        Next::OnEvent
    }
}
