//! What the program has installed for each signal: handler and flags in one word, so that the
//! wrapper never runs one handler with another's flags.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, sighandler_t};

use super::number::SIGNALS;

/// Set beside the handler's address: it takes three arguments (`SA_SIGINFO`).
const SIGINFO: u64 = 1 << 63;
/// The same: interrupted system calls are restarted (`SA_RESTART`).
const RESTART: u64 = 1 << 62;
/// The same: the default action is in force when it runs (`SA_RESETHAND`).
const RESETS: u64 = 1 << 61;
const ADDRESS: u64 = RESETS - 1;

/// By signal number; 0 where the wrapper was never installed.
static ACTIONS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];

/// A handler of the program, with the flags that decide how it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action(u64);

impl Action {
    /// `None`: no program has functions at such an address. User space ends below it.
    pub(super) fn new(handler: sighandler_t, flags: c_int) -> Option<Self> {
        let address = u64::try_from(handler).ok()?;
        let set = |flag, bit| if flags & flag != 0 { bit } else { 0 };
        let bits = set(libc::SA_SIGINFO, SIGINFO)
            | set(libc::SA_RESTART, RESTART)
            | set(libc::SA_RESETHAND, RESETS);
        (address & !ADDRESS == 0).then_some(Self(address | bits))
    }

    /// What is installed for a signal.
    pub(super) fn of(index: usize) -> Self {
        Self(ACTIONS[index].load(Ordering::Acquire))
    }

    /// Makes it what is installed.
    pub(super) fn publish(self, index: usize) {
        ACTIONS[index].store(self.0, Ordering::Release);
    }

    /// The address of the function; 0: there is none.
    pub(super) fn handler(self) -> sighandler_t {
        (self.0 & ADDRESS) as sighandler_t
    }

    /// Whether it takes three arguments.
    pub(super) fn takes_information(self) -> bool {
        self.0 & SIGINFO != 0
    }

    /// Whether it is for one signal only.
    pub(super) fn resets(self) -> bool {
        self.0 & RESETS != 0
    }

    /// Whether interrupted system calls are restarted.
    pub(super) fn restarts(self) -> bool {
        self.0 & RESTART != 0
    }
}

/// `siginterrupt(3)` changes one flag of what is installed.
pub(super) fn set_restart(index: usize, restarts: bool) {
    if restarts {
        ACTIONS[index].fetch_or(RESTART, Ordering::AcqRel);
    } else {
        ACTIONS[index].fetch_and(!RESTART, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handler_and_flags_come_back() {
        let highest = ADDRESS as sighandler_t;
        for handler in [1, 0x7fff_ffff_f001, highest] {
            for (flags, information, restarts, resets) in [
                (0, false, false, false),
                (libc::SA_SIGINFO | libc::SA_NODEFER, true, false, false),
                (libc::SA_RESTART, false, true, false),
                (libc::SA_RESETHAND, false, false, true),
                (libc::SA_RESTART | libc::SA_SIGINFO, true, true, false),
            ] {
                let action = Action::new(handler, flags).unwrap();
                assert_eq!(action.handler(), handler);
                assert_eq!(action.takes_information(), information);
                assert_eq!(action.restarts(), restarts);
                assert_eq!(action.resets(), resets);
            }
        }
        assert_eq!(Action::new(highest + 1, 0), None);
        assert_eq!(Action::new(libc::SIG_ERR, 0), None);
    }
}
