//! When a process gets a guardian, which tells the peers of its connections if it is killed.

use std::time::Duration;

use dev_core::Backend;
use tcp::Instant;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task};

/// So old a connection or listener is by then, at least. Programs of one request do without: a
/// start costs a millisecond of CPU time, and for a moment the process on the way has the program's
/// descriptors, the devices among them.
const PATIENCE: Duration = Duration::from_millis(250);
/// How often it is looked for the first one.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Has it started once.
pub(super) struct Guardian<B: Backend> {
    engine: &'static Engine<B>,
    start: fn(),
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// There is nothing to guard.
    Idle,
    /// There is since then.
    Waits(Instant),
    Started,
}

impl State {
    fn next(self, has_streams: bool, now: Instant) -> Self {
        match self {
            Self::Started => Self::Started,
            _ if !has_streams => Self::Idle,
            Self::Idle => Self::Waits(now),
            Self::Waits(since) if now.saturating_since(since) >= PATIENCE => Self::Started,
            Self::Waits(since) => Self::Waits(since),
        }
    }
}

impl<B: Backend> Guardian<B> {
    pub(super) fn new(engine: &'static Engine<B>, start: fn()) -> Self {
        let state = State::Idle;
        Self {
            engine,
            start,
            state,
        }
    }
}

impl<B: Backend> Task for Guardian<B> {
    fn run(&mut self, _watched: &[libc::pollfd], now: Instant) -> Next {
        let before = self.state;
        self.state = before.next(self.engine.has_streams(), now);
        match self.state {
            State::Idle => Next::In(IDLE_INTERVAL),
            State::Waits(_) => Next::In(PATIENCE),
            State::Started => {
                if before != State::Started {
                    (self.start)();
                }
                Next::OnEvent
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_a_while_is_guarded() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let waits = State::Idle.next(true, at(1000));
        assert_eq!(waits, State::Waits(at(1000)));
        assert_eq!(waits.next(true, at(1249)), waits);
        assert_eq!(waits.next(true, at(1250)), State::Started);
        assert_eq!(waits.next(false, at(1250)), State::Idle);
        assert_eq!(State::Idle.next(false, at(9)), State::Idle);
        assert_eq!(State::Started.next(false, at(9)), State::Started);
    }
}
