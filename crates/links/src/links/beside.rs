//! Opening an interface in a thread of its own, for which a call waits no longer than it is asked
//! to: the kernel may take seconds while others change its network configuration (its RTNL lock).

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::interface::Interface;
use crate::links::Links;
use crate::links::states::Opening;
use crate::reason::Reason;
use crate::receiver::Receiver;

/// Runs work in a new thread, with the rights and in the namespaces of the caller's. `false`: there
/// is none, and the work was dropped.
pub type Spawn = fn(Box<dyn FnOnce() + Send>) -> bool;

/// What came of it.
type Outcome<S> = Result<&'static Interface<S>, Reason>;

/// Where the opener leaves it for who waits.
struct Handover<S: Receiver> {
    work: Mutex<Work<S>>,
    done: Condvar,
}

enum Work<S: Receiver> {
    ToDo(Opening<'static, S>),
    Begun,
    Done(Outcome<S>),
}

impl<S: Receiver> Handover<S> {
    fn work(&self) -> MutexGuard<'_, Work<S>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Opening<'static, S>> {
        match std::mem::replace(&mut *self.work(), Work::Begun) {
            Work::ToDo(opening) => Some(opening),
            _ => None,
        }
    }
}

impl<S: Receiver> Links<S> {
    /// Interfaces are opened by threads that this makes.
    pub fn open_beside(&self, spawn: Spawn) {
        let _ = self.spawn.set(spawn);
    }

    /// Opens a closed interface; goes on without it if that takes too long.
    pub(super) fn open_with_patience(
        &'static self,
        index: u32,
        opening: Opening<'static, S>,
    ) -> Outcome<S> {
        let Some(spawn) = self.spawn.get() else {
            return self.open_closed(index, opening);
        };
        let handover = Arc::new(Handover {
            work: Mutex::new(Work::ToDo(opening)),
            done: Condvar::new(),
        });
        let theirs = Arc::clone(&handover);
        let has_begun = spawn(Box::new(move || {
            if let Some(opening) = theirs.take() {
                let outcome = self.open_closed(index, opening);
                *theirs.work() = Work::Done(outcome);
                theirs.done.notify_all();
                self.finish_late();
            }
        }));
        if !has_begun {
            let opening = handover.take().ok_or(Reason::OpenFailed)?;
            return self.open_closed(index, opening);
        }
        let is_under_way = |work: &mut Work<S>| !matches!(work, Work::Done(_));
        let (work, _) = handover
            .done
            .wait_timeout_while(handover.work(), self.settings.open_wait, is_under_way)
            .unwrap_or_else(PoisonError::into_inner);
        match *work {
            Work::Done(outcome) => outcome,
            _ => {
                self.states.note_missed();
                Err(Reason::Opening)
            }
        }
    }

    /// In the opener. Who did not wait goes over now.
    fn finish_late(&self) {
        if self.states.take_missed() {
            self.is_opened_late.store(true, Ordering::SeqCst);
            self.internal_thread.call();
        }
    }

    /// Whether an interface is being opened, or was since this was last asked, by a thread for
    /// which somebody did not wait.
    pub fn opens_late(&self) -> bool {
        self.states.is_missed() || self.is_opened_late.load(Ordering::SeqCst)
    }

    /// Whether one was opened of which others were told that it is being opened.
    pub(super) fn take_opened_late(&self) -> bool {
        self.is_opened_late.swap(false, Ordering::SeqCst)
    }
}
