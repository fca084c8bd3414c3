//! What every waiting call has in common: how long it polls, when it asks the kernel, when it
//! sleeps or ends.

use links::interface::set::InterfaceSet;
use links::moderated_sleep::Naps;
use links::settings::Settings;
use sys::Errno;

use crate::cpu_sharing::Spin;
use crate::sockets::interrupt::Mark;
use crate::sockets::sleep::{Sleep, Woken};
use crate::sockets::stack::Stack;

/// What became of a waiting call so far.
#[derive(Debug)]
pub enum MuxOutcome {
    /// The call's result: the number of ready descriptors or events.
    Done(usize),
    /// Failed.
    Fail(Errno),
    /// Nothing yet: look for a cancellation request and call again.
    Again,
    /// Nothing yet: sleep as described, then call again.
    Sleep(Sleep),
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
    os_looks: OsLooks,
    rounds: u32,
    spin: Spin,
    pub(super) naps: Naps,
    /// The call ends with this, after a last look: like the kernel it prefers what is ready.
    ends: Option<Step>,
    /// It has slept, so polling did not satisfy it.
    pub(super) has_slept: bool,
    /// What it found last came from the kernel.
    pub(super) found_by_kernel: bool,
    /// The kernel has said in this call what it has.
    has_asked_kernel: bool,
    /// When it began to poll, if that is measured.
    pub(super) polls_since_nsec: Option<u64>,
    /// It has had packets shown to a function of the program's.
    has_shown: bool,
    /// It is a `select(2)`, which takes any number of descriptors.
    pub(crate) is_select: bool,
}

impl MuxCall {
    /// Begins a call that ends after `timeout_nsec`, or never. `may_poll`: whether it may poll
    /// before it sleeps; not when it has a signal mask, which is in force in the sleep only.
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
            os_looks: OsLooks::new(settings.select_poll_os_ratio),
            rounds: 0,
            spin: Spin::new(settings.poll_shared_cpu, settings.select_poll_usec >= 0),
            naps: Naps::default(),
            ends: None,
            has_slept: false,
            found_by_kernel: false,
            has_asked_kernel: false,
            polls_since_nsec: settings.measures_polling.then(begun),
            has_shown: false,
            is_select: false,
        }
    }

    /// Packets are to be shown before the call goes on: whether the caller is to do that now. For a
    /// call that does not wait it does so once.
    #[cold]
    pub(super) fn shows_first(&mut self) -> bool {
        let has_shown = std::mem::replace(&mut self.has_shown, true);
        if has_shown && !self.is_immediate() {
            self.checked(Step::Poll);
            return self.ends.is_none();
        }
        !has_shown
    }

    /// Whether a signal handler has run since the call began; none of these calls is ever restarted
    /// (signal(7)).
    pub fn interrupted(&self) -> bool {
        self.mark.any_handler()
    }

    /// The call is a `select(2)`.
    pub fn of_select(self) -> Self {
        Self {
            is_select: true,
            ..self
        }
    }

    /// A signal has ended the call's sleep: it looks once more, and ends with `EINTR` if nothing is
    /// ready.
    pub fn end_after_last_look(&mut self) {
        self.ends = Some(Step::Interrupted);
        self.ask_kernel_next();
    }

    /// The call's sleep is over.
    pub fn woke(&mut self, woken: Option<Woken>) {
        if let Some(since) = &mut self.polls_since_nsec {
            *since = sys::now_nsec();
        }
        if woken.is_none_or(|woken| woken.kernel) {
            self.ask_kernel_next();
        }
    }

    /// Whether this is the last look of a call that a signal has ended. Its handler may have closed
    /// what the call waits for, which the kernel's call would not have seen.
    pub(super) fn is_last_after_signal(&self) -> bool {
        self.ends == Some(Step::Interrupted)
    }

    /// Whether the call is not to wait at all.
    pub(super) fn is_immediate(&self) -> bool {
        self.deadline_nsec == Some(0)
    }

    /// Whether what is ready in user space would hide what the kernel has: this call has not asked
    /// it. One that waited has, when it began.
    #[inline]
    pub(super) fn may_hide_kernels(&self) -> bool {
        !self.has_asked_kernel
    }

    /// The kernel was asked.
    #[inline]
    pub(super) fn asked_kernel(&mut self) {
        self.has_asked_kernel = true;
    }

    /// Receives what has come; a call that does not wait receives all of it. Returns whether
    /// anything came.
    #[inline]
    pub(super) fn receive_from<S: Stack>(&self, interfaces: &InterfaceSet<S>) -> bool {
        let frames = if self.is_immediate() {
            interfaces.receive_present()
        } else {
            interfaces.poll()
        };
        frames > 0
    }

    /// Nothing comes past the kernel to what the call waits for: it sleeps without polling.
    pub(super) fn stop_polling(&mut self) {
        self.poll_until_nsec = Some(0);
    }

    /// Whether the kernel is to be asked in this round.
    #[inline]
    pub(super) fn asks_kernel(&mut self) -> bool {
        self.os_looks.due()
    }

    /// Whether what the kernel has is left to a sleep that begins at once and ends at once if there
    /// is anything.
    #[inline]
    pub(super) fn leaves_kernel_to_sleep(&self) -> bool {
        self.poll_until_nsec == Some(0)
            && !self.has_slept
            && self.ends.is_none()
            && !self.is_immediate()
    }

    /// The next round asks the kernel: it is what woke us.
    pub(super) fn ask_kernel_next(&mut self) {
        self.os_looks.look_next();
    }

    /// What follows a round that found nothing ready. `received`: frames came, for others; then
    /// there is no use in sleeping.
    #[inline]
    pub(super) fn next_step(&mut self, received: bool) -> Step {
        if self.is_immediate() {
            return Step::TimedOut;
        }
        if let Some(end) = self.ends {
            return end;
        }
        if self.stops_polling() {
            return self.checked(if received { Step::Poll } else { Step::Sleep });
        }
        self.rounds += 1;
        if !self.rounds.is_multiple_of(ROUNDS_PER_CHECK) {
            std::hint::spin_loop();
            return Step::Poll;
        }
        self.spin.look();
        match self.poll_until_nsec {
            Some(until) if sys::now_nsec() >= until => {
                // After a sleep it asks once and sleeps again.
                self.poll_until_nsec = Some(0);
                self.checked(Step::Sleep)
            }
            _ => self.checked(Step::Poll),
        }
    }

    /// Whether the call is to sleep now: it does not poll, or not any more, or not on a CPU that
    /// others need.
    #[inline]
    fn stops_polling(&mut self) -> bool {
        let is_over = self.poll_until_nsec.map(|until| until == 0);
        self.spin.stops(is_over)
    }

    fn checked(&mut self, step: Step) -> Step {
        let timed_out = self
            .deadline_nsec
            .is_some_and(|deadline| sys::now_nsec() >= deadline);
        self.ends = match (self.interrupted(), timed_out) {
            (true, _) => Some(Step::Interrupted),
            (false, true) => Some(Step::TimedOut),
            (false, false) => return step,
        };
        self.ask_kernel_next();
        Step::Poll
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

/// When a call asks the kernel between rounds of polling (`VMA_SELECT_POLL_OS_RATIO`).
///
/// A look costs a system call, as much as some rounds, and a packet that comes meanwhile waits.
/// While looks find nothing, the distance between them doubles, up to [`DISTANCE_MAX`] times the
/// first: about ten microseconds.
#[derive(Debug)]
struct OsLooks {
    distance: u32,
    distance_max: u32,
    /// Rounds to the next look; 0 if there is none.
    left: u32,
}

const DISTANCE_MAX: u32 = 16;

impl OsLooks {
    /// The kernel is asked in the first round: what has waited there longest comes first, and a
    /// descriptor that is not open is found before a signal ends the call.
    fn new(ratio: u32) -> Self {
        Self {
            distance: ratio,
            distance_max: ratio.saturating_mul(DISTANCE_MAX),
            left: 1,
        }
    }

    /// Counts a round; says whether it is time for a look.
    #[inline]
    fn due(&mut self) -> bool {
        if self.left != 1 {
            self.left = self.left.saturating_sub(1);
            return false;
        }
        self.left = self.distance;
        self.distance = self.distance.saturating_mul(2).min(self.distance_max);
        true
    }

    fn look_next(&mut self) {
        self.left = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds_until_due(looks: &mut OsLooks) -> u32 {
        (1..).find(|_| looks.due()).unwrap()
    }

    #[test]
    fn the_kernel_is_asked_first_and_then_ever_less() {
        let mut looks = OsLooks::new(10);
        let rounds = [(); 7].map(|()| rounds_until_due(&mut looks));
        assert_eq!(rounds, [1, 10, 20, 40, 80, 160, 160]);
        looks.look_next();
        assert_eq!(rounds_until_due(&mut looks), 1);
    }

    #[test]
    fn ratio_zero_asks_once() {
        let mut looks = OsLooks::new(0);
        assert!(looks.due());
        assert!((0..1000).all(|_| !looks.due()));
        looks.look_next();
        assert!(looks.due());
    }
}
