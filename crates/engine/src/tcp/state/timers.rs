//! Timers of connections. Whoever changes a connection sets its timer.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use links::internal_thread::InternalThread;

use ::tcp::Instant;
use ::tcp::timer_wheel::TimerWheel;

use crate::tcp::clock::now;

/// Times are rounded up to multiples of this.
const TICK: Duration = Duration::from_millis(1);

/// One timer for each object of a socket.
pub(in crate::tcp) struct Timers<S> {
    wheel: Mutex<Wheel<S>>,
    internal_thread: Arc<InternalThread>,
}

struct Wheel<S> {
    wheel: TimerWheel,
    /// By the numbers of their timers.
    sockets: Vec<S>,
    /// When the internal thread looks next; `None`: it does not.
    looks_at: Option<Instant>,
    /// It is just looking, and then at what has come meanwhile.
    is_looking: bool,
}

impl<S: Copy> Timers<S> {
    pub(in crate::tcp) fn new(internal_thread: Arc<InternalThread>) -> Self {
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
    pub(in crate::tcp) fn add(&self, socket: S) -> u32 {
        let mut wheel = self.lock();
        wheel.sockets.push(socket);
        wheel.sockets.len() as u32 - 1
    }

    /// Has the internal thread look after a socket at a time, or earlier if that was set before.
    #[inline]
    pub(in crate::tcp) fn arm(&self, timer: u32, at: Instant) {
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
    pub(in crate::tcp) fn disarm(&self, timer: u32) {
        self.lock().wheel.disarm(timer);
    }

    /// The socket that has this one.
    pub(in crate::tcp) fn socket(&self, timer: u32) -> Option<S> {
        self.lock().sockets.get(timer as usize).copied()
    }

    pub(in crate::tcp) fn next_expired(&self, now: Instant) -> Option<S> {
        let mut wheel = self.lock();
        let timer = wheel.wheel.poll(now);
        wheel.sockets.get(timer? as usize).copied()
    }

    /// When the earliest of them expires, or before.
    pub(in crate::tcp) fn next_expiry(&self) -> Option<Instant> {
        self.lock().wheel.next_expiry()
    }

    /// The internal thread begins to look.
    pub(in crate::tcp) fn begin_look(&self) {
        self.lock().is_looking = true;
    }

    /// It has looked. Returns when to look again, which is after `at_most` if that is given,
    /// whatever the timers say: who sets one for later need not call.
    pub(in crate::tcp) fn end_look(&self, at_most: Option<Duration>) -> Option<Duration> {
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

impl<S> fmt::Debug for Timers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").finish_non_exhaustive()
    }
}
