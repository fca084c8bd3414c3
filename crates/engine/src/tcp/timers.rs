//! Timers of connections. Whoever changes a connection sets its timer; the internal thread runs what has expired.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use links::internal_thread::InternalThread;

use ::tcp::Instant;
use ::tcp::timer_wheel::TimerWheel;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::globals::now;
use crate::tcp::{TcpSocket, TcpStack};

/// Times are rounded up to multiples of this.
const TICK: Duration = Duration::from_millis(1);

/// One timer for each object of a socket.
pub(super) struct Timers<S: Stack> {
    wheel: Mutex<Wheel<S>>,
    internal_thread: Arc<InternalThread>,
}

struct Wheel<S: Stack> {
    wheel: TimerWheel,
    /// By the numbers of their timers.
    sockets: Vec<&'static TcpSocket<S>>,
    /// When the internal thread looks next; `None`: it does not.
    looks_at: Option<Instant>,
    /// It is just looking, and then at what has come meanwhile.
    is_looking: bool,
}

impl<S: Stack> Timers<S> {
    pub(super) fn new(internal_thread: Arc<InternalThread>) -> Self {
        Self {
            wheel: Mutex::new(Wheel {
                wheel: TimerWheel::new(TICK, now()),
                sockets: Vec::new(),
                looks_at: None,
                is_looking: false,
            }),
            internal_thread,
        }
    }

    /// Gives an object its timer, the first time that it is used.
    pub(super) fn add(&self, socket: &'static TcpSocket<S>) -> u32 {
        let mut wheel = self.lock();
        wheel.sockets.push(socket);
        wheel.sockets.len() as u32 - 1
    }

    /// Has the internal thread look after a socket at a time, or earlier if that was set before.
    #[inline]
    pub(super) fn arm(&self, timer: u32, at: Instant) {
        let mut wheel = self.lock();
        // Threads that were told of times in one order may come here in another.
        wheel.wheel.arm_earlier(timer, at);
        if wheel.looks_at.is_none_or(|looks_at| at < looks_at) {
            wheel.looks_at = Some(at);
            let is_looking = wheel.is_looking;
            drop(wheel);
            if !is_looking {
                self.internal_thread.call();
            }
        }
    }

    /// The object is nobody's.
    pub(super) fn disarm(&self, timer: u32) {
        self.lock().wheel.disarm(timer);
    }

    /// The socket that has this one.
    pub(super) fn socket(&self, timer: u32) -> Option<&'static TcpSocket<S>> {
        self.lock().sockets.get(timer as usize).copied()
    }

    fn next_expired(&self, now: Instant) -> Option<&'static TcpSocket<S>> {
        let mut wheel = self.lock();
        let timer = wheel.wheel.poll(now);
        wheel.sockets.get(timer? as usize).copied()
    }

    /// When the earliest of them expires, or before.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.lock().wheel.next_expiry()
    }

    /// The internal thread begins to look.
    pub(super) fn begin_look(&self) {
        self.lock().is_looking = true;
    }

    /// It has looked. Returns when to look again, which is after `at_most` if that is given, whatever the timers say: who sets one for
    /// later need not call.
    pub(super) fn end_look(&self, at_most: Option<Duration>) -> Option<Duration> {
        let now = now();
        let mut wheel = self.lock();
        wheel.is_looking = false;
        let latest = at_most.map(|at_most| now + at_most);
        wheel.looks_at = wheel.wheel.next_expiry().into_iter().chain(latest).min();
        Some(wheel.looks_at?.saturating_since(now))
    }

    fn lock(&self) -> MutexGuard<'_, Wheel<S>> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Stack> fmt::Debug for Timers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}

/// In the internal thread: looks after the sockets whose time has come. Objects that nobody uses any more go to `give`. Returns whether
/// there were any.
pub(crate) fn run_timers<S: TcpStack>(
    host: &Host<S>,
    globals: &super::Globals<S>,
    mut give: impl FnMut(&'static TcpSocket<S>),
) -> bool {
    let mut were_any = false;
    while let Some(socket) = globals.timers.next_expired(now()) {
        were_any = true;
        if socket.look_after(host) {
            give(socket);
        }
    }
    were_any
}
