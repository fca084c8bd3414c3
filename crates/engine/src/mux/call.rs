//! What every waiting call has in common: how long it polls, when it asks the kernel, when it sleeps or ends.

use ring::Backend;

use crate::engine::Settings;
use crate::interrupt::Mark;
use crate::sleep::Sleep;
use crate::sys::{self, Errno};

/// What became of a waiting call so far.
#[derive(Debug)]
pub enum MuxOutcome<B: Backend> {
    /// The call's result: the number of ready descriptors or events.
    Done(usize),
    /// Failed.
    Fail(Errno),
    /// Nothing yet: look for a cancellation request and call again.
    Again,
    /// Nothing yet: sleep as described, then call again.
    Sleep(Sleep<B>),
}

/// Rounds of polling between two looks at clock and signals.
const ROUNDS_PER_CHECK: u32 = 64;
/// Rounds before the caller gets a chance to be cancelled.
pub(super) const ROUNDS_PER_ATTEMPT: u32 = 1 << 12;

/// A waiting call from its beginning to its end.
#[derive(Debug)]
pub struct MuxCall {
    mark: Mark,
    pub(super) deadline_nsec: Option<u64>,
    poll_until_nsec: Option<u64>,
    os_ratio: u32,
    rounds_to_os: u32,
    rounds: u32,
}

impl MuxCall {
    /// Begins a call that ends after `timeout_nsec`, or never. `may_poll`: whether it may poll before it sleeps; not when it
    /// has a signal mask, which is in force in the sleep only.
    pub fn begin(settings: &Settings, timeout_nsec: Option<u64>, may_poll: bool) -> Self {
        let begun = || sys::now_nsec();
        let poll_until_nsec = match (may_poll, u64::try_from(settings.select_poll_usec)) {
            (false, _) | (_, Ok(0)) => Some(0),
            (true, Ok(usec)) => Some(begun() + usec * 1000),
            (true, Err(_)) => None,
        };
        Self {
            mark: Mark::now(),
            deadline_nsec: timeout_nsec.map(|timeout| match timeout {
                0 => 0,
                timeout => begun().saturating_add(timeout),
            }),
            poll_until_nsec,
            os_ratio: settings.select_poll_os_ratio,
            // The kernel is asked in the first round: what has waited there longest comes first.
            rounds_to_os: 1,
            rounds: 0,
        }
    }

    /// Whether a signal handler has run since the call began; none of these calls is ever restarted (signal(7)).
    pub fn interrupted(&self) -> bool {
        self.mark.any_handler()
    }

    /// Whether the call is not to wait at all.
    pub(super) fn is_immediate(&self) -> bool {
        self.deadline_nsec == Some(0)
    }

    /// Whether the kernel is to be asked in this round.
    #[inline]
    pub(super) fn asks_kernel(&mut self) -> bool {
        if self.rounds_to_os == 0 {
            return false;
        }
        self.rounds_to_os -= 1;
        if self.rounds_to_os > 0 {
            return false;
        }
        self.rounds_to_os = self.os_ratio;
        true
    }

    /// The next round asks the kernel: it is what woke us.
    pub(super) fn ask_kernel_next(&mut self) {
        self.rounds_to_os = 1;
    }

    /// What follows a round that found nothing.
    #[inline]
    pub(super) fn next_step(&mut self) -> Step {
        if self.is_immediate() {
            return Step::TimedOut;
        }
        if self.poll_until_nsec == Some(0) {
            return self.checked(Step::Sleep);
        }
        self.rounds += 1;
        if !self.rounds.is_multiple_of(ROUNDS_PER_CHECK) {
            std::hint::spin_loop();
            return Step::Poll;
        }
        match self.poll_until_nsec {
            Some(until) if sys::now_nsec() >= until => {
                // After a sleep it asks once and sleeps again.
                self.poll_until_nsec = Some(0);
                self.checked(Step::Sleep)
            }
            _ => self.checked(Step::Poll),
        }
    }

    fn checked(&self, step: Step) -> Step {
        if self.interrupted() {
            return Step::Interrupted;
        }
        let timed_out = self
            .deadline_nsec
            .is_some_and(|deadline| sys::now_nsec() >= deadline);
        if timed_out { Step::TimedOut } else { step }
    }
}

/// What a waiting call does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Poll,
    Sleep,
    TimedOut,
    Interrupted,
}
