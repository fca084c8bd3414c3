//! poll and epoll.

use std::time::Duration;

use packetdrill::Outcome;
use tcp::{Event, State};

use super::Engine;
use super::sockets::{Kind, Watched};

const ALWAYS: i64 = (libc::POLLERR | libc::POLLHUP | libc::POLLNVAL) as i64;
const EDGE: i64 = 1 << 31;
const ONE_SHOT: i64 = 1 << 30;

impl Engine {
    /// What a descriptor is ready for, as `tcp_poll` of Linux has it.
    pub(super) fn readiness(&self, fd: i32) -> i64 {
        let Some(socket) = self.sockets.get(&fd) else {
            return i64::from(libc::POLLNVAL);
        };
        let id = match &socket.kind {
            // As if connected, so that the program writes (`tcp_poll`).
            Kind::Deferred(_) => return i64::from(libc::POLLOUT),
            Kind::Fresh => return i64::from(libc::POLLOUT | libc::POLLHUP),
            Kind::Listening { queue, .. } if queue.is_empty() => return 0,
            Kind::Listening { .. } => return i64::from(libc::POLLIN),
            Kind::Epoll(watched) => {
                let ready = watched
                    .iter()
                    .any(|(fd, watched)| self.reported(*fd, watched) != 0);
                return if ready { i64::from(libc::POLLIN) } else { 0 };
            }
            Kind::Connected(id) => *id,
        };
        let held = &self.connections[&id];
        let connection = &held.connection;
        let state = connection.state();
        let mut ready = 0;
        if state == State::Closed || state.has_fin() && state.has_peer_fin() {
            ready |= libc::POLLHUP;
        }
        if state == State::Closed || state.has_peer_fin() {
            ready |= libc::POLLIN | libc::POLLRDHUP;
        }
        let is_opened_fast = state == State::SynReceived && connection.is_writable();
        if is_opened_fast || !matches!(state, State::SynSent | State::SynReceived) {
            if connection.is_readable() {
                ready |= libc::POLLIN;
            }
            if connection.is_writable() || !state.can_send() {
                ready |= libc::POLLOUT;
            }
        }
        if held.has_error {
            ready |= libc::POLLERR;
        }
        if connection.has_urgent() {
            ready |= libc::POLLPRI;
        }
        i64::from(ready)
    }

    /// The result of `poll`; `None` if it has to wait.
    pub(super) fn poll(&self, entries: &[(i32, i32)]) -> Option<Outcome> {
        let events: Vec<i64> = entries
            .iter()
            .map(|(fd, events)| self.readiness(*fd) & (i64::from(*events) | ALWAYS))
            .collect();
        let count = events.iter().filter(|events| **events != 0).count();
        (count > 0).then(|| Outcome::with(i64::try_from(count).expect("few"), events))
    }

    fn reported(&self, fd: i32, watched: &Watched) -> i64 {
        let wanted = watched.events & !(EDGE | ONE_SHOT);
        // A disabled entry wants nothing at all.
        if wanted == 0 || watched.events & EDGE != 0 && !watched.is_ready {
            return 0;
        }
        self.readiness(fd) & (wanted | ALWAYS)
    }

    /// The result of `epoll_wait`; `None` if it has to wait.
    pub(super) fn epoll_wait(&mut self, set: i32, room: usize) -> Option<Outcome> {
        let Some(Kind::Epoll(watched)) = self.sockets.get(&set).map(|socket| &socket.kind) else {
            return Some(Outcome::error(libc::EINVAL));
        };
        let events: Vec<(i32, i64)> = watched
            .iter()
            .map(|(fd, watched)| (*fd, self.reported(*fd, watched)))
            .filter(|(_, events)| *events != 0)
            .take(room)
            .collect();
        if events.is_empty() {
            return None;
        }
        if let Some(Kind::Epoll(watched)) =
            self.sockets.get_mut(&set).map(|socket| &mut socket.kind)
        {
            for (fd, _) in &events {
                let watched = watched.get_mut(fd).expect("just seen");
                watched.is_ready = false;
                if watched.events & ONE_SHOT != 0 {
                    watched.events &= EDGE | ONE_SHOT;
                }
            }
        }
        let count = i64::try_from(events.len()).expect("few");
        let output = events
            .iter()
            .flat_map(|(fd, events)| [i64::from(*fd), *events]);
        Some(Outcome::with(count, output.collect()))
    }

    pub(super) fn epoll_control(
        &mut self,
        set: i32,
        operation: i32,
        fd: i32,
        events: i64,
    ) -> Result<i64, i32> {
        if !self.sockets.contains_key(&fd) {
            return Err(libc::EBADF);
        }
        let Some(Kind::Epoll(watched)) = self.sockets.get_mut(&set).map(|socket| &mut socket.kind)
        else {
            return Err(libc::EINVAL);
        };
        let entry = Watched {
            events,
            is_ready: true,
        };
        match (operation, watched.contains_key(&fd)) {
            (libc::EPOLL_CTL_ADD, false) | (libc::EPOLL_CTL_MOD, true) => {
                watched.insert(fd, entry);
                Ok(0)
            }
            (libc::EPOLL_CTL_ADD, true) => Err(libc::EEXIST),
            (libc::EPOLL_CTL_DEL, true) => {
                watched.remove(&fd);
                Ok(0)
            }
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, false) => Err(libc::ENOENT),
            _ => Err(libc::EINVAL),
        }
    }

    /// A connection reported `event`: edge-triggered entries are ready again.
    pub(super) fn note_edge(&mut self, id: usize, event: Event) {
        if event == Event::TimeWait {
            return;
        }
        let about: Vec<i32> = self
            .sockets
            .iter()
            .filter(|(_, socket)| socket.kind.connection() == Some(id) || socket.kind.queues(id))
            .map(|(fd, _)| *fd)
            .collect();
        for socket in self.sockets.values_mut() {
            if let Kind::Epoll(watched) = &mut socket.kind {
                for fd in &about {
                    if let Some(watched) = watched.get_mut(fd) {
                        watched.is_ready = true;
                    }
                }
            }
        }
    }
}

/// When a wait that began at `now` ends.
pub(super) fn deadline(now: tcp::Instant, timeout: Option<Duration>) -> Option<tcp::Instant> {
    timeout.map(|timeout| now + timeout)
}
