//! What the internal thread has to do with the program's own threads: it may do no more than they,
//! and ends with them.

use std::time::Duration;

use dev_core::Backend;
use sys::{Leader, LeaderStatus};
use tcp::Instant;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task, Watched};
use crate::process::thread_request::{END, RIGHTS_WENT};

/// How often is looked at what nobody announces.
const INTERVAL: Duration = Duration::from_millis(500);
/// The same when the first thread has ended: the others may end at any time.
const INTERVAL_AT_END: Duration = Duration::from_millis(20);

/// The program's own threads.
pub(super) struct Program<B: Backend> {
    engine: &'static Engine<B>,
    leader: Option<Leader>,
    looks_at: Instant,
    /// What was seen last: the thread's own rights follow from it.
    followed: Option<LeaderStatus>,
}

impl<B: Backend> Program<B> {
    pub(super) fn new(engine: &'static Engine<B>, leader: Option<Leader>) -> Self {
        Self {
            engine,
            leader,
            looks_at: Instant::ZERO,
            followed: None,
        }
    }
}

impl<B: Backend> Task for Program<B> {
    /// Whoever wants something calls.
    fn watch(&self, watched: &mut Watched) {
        if let Some(fd) = self.engine.internal_thread.fd() {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, _watched: &[libc::pollfd], now: Instant) -> Next {
        let taken = self.engine.thread_requests.take();
        if taken.is_none() && now < self.looks_at {
            return Next::In(self.looks_at.saturating_since(now));
        }
        self.looks_at = now + INTERVAL;
        let wanted = taken.as_ref().map_or(0, |taken| taken.wanted);
        if wanted & RIGHTS_WENT != 0 {
            self.engine.answer_rights_went();
        }
        let status = self.leader.as_ref().and_then(Leader::look);
        let has_ended = status.is_some_and(|status| status.has_ended);
        if let Some(status) = status.filter(|_| !has_ended)
            && !self
                .followed
                .is_some_and(|seen| seen.has_rights_of(&status))
        {
            self.engine.follow_rights(&status);
            self.followed = Some(status);
        }
        if let Some(taken) = &taken {
            self.engine.thread_requests.done(taken);
        }
        if wanted & END != 0 {
            return Next::EndThread;
        }
        if has_ended {
            // Two are left: the first one, whose process it is, and this one.
            // The first thread, the internal one and those for opening.
            let own = 2 + self.engine.links.opening_threads();
            if status.is_some_and(|status| status.threads <= own) {
                // With the last thread the C library ends the process.
                self.engine.links.end_opener();
                let end = self.leader.as_ref().map(Leader::end);
                self.engine.internal_thread.program_ends(end);
                return Next::EndThread;
            }
            self.looks_at = now + INTERVAL_AT_END;
            return Next::In(INTERVAL_AT_END);
        }
        Next::In(INTERVAL)
    }
}
