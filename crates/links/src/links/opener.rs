//! The thread that opens interfaces. The kernel takes some 20 ms for that, and seconds while others
//! change its network configuration (its RTNL lock): a call waits no longer than it is asked to.
//!
//! It lasts once it was needed. In a thread that ends all signals are blocked, and the C library's
//! setgroups(2) and its like, which wait for every thread's answer, may wait for it for ever
//! (glibc 2.36).

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dev_core::Backend;

use crate::interface::Interface;
use crate::links::Links;
use crate::links::states::Opening;
use crate::reason::Reason;
use crate::receiver::Receiver;

/// Runs work in a new thread, with the rights and in the namespaces of the caller's. `false`: there
/// is none, and the work was dropped.
pub type Spawn = fn(Box<dyn FnOnce() + Send>) -> bool;

type Job = Box<dyn FnOnce() + Send>;

/// A program that has ended by then needs no interface: opened ones take longer to close than such
/// a program to run.
const HEAD_START: Duration = Duration::from_millis(20);
/// How long is waited at most for the opener to be done.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub(super) struct Opener {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Job, Instant)>,
    is_busy: bool,
    /// Jobs do not wait for their time.
    hurries: bool,
    /// The thread ends when there is nothing to do.
    ends: bool,
    thread: Thread,
}

#[derive(Clone, Copy, Default)]
enum Thread {
    #[default]
    None,
    Begins,
    Runs(libc::pid_t),
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl Opener {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread do a job at that time, or earlier if somebody waits. `false`: there is no
    /// thread, and the job was dropped.
    fn run(&'static self, spawn: Spawn, job: Job, at: Instant) -> bool {
        let mut state = self.state();
        state.jobs.push_back((job, at));
        state.ends = false;
        if !matches!(state.thread, Thread::None) {
            self.changed.notify_all();
            return true;
        }
        state.thread = Thread::Begins;
        drop(state);
        if spawn(Box::new(|| self.work())) {
            return true;
        }
        let mut state = self.state();
        state.thread = Thread::None;
        state.jobs.clear();
        false
    }

    /// The thread.
    fn work(&self) {
        let mut state = self.state();
        state.thread = Thread::Runs(sys::thread_id());
        loop {
            let Some((_, at)) = state.jobs.front() else {
                if state.ends {
                    state.thread = Thread::None;
                    return;
                }
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = at.saturating_duration_since(Instant::now());
            if !left.is_zero() && !state.hurries {
                let waited = self.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            if let Some((job, _)) = state.jobs.pop_front() {
                state.is_busy = true;
                drop(state);
                // What the job has of an opening says that it has failed.
                let _ = catch_unwind(AssertUnwindSafe(job));
                state = self.state();
                state.is_busy = false;
                self.changed.notify_all();
            }
        }
    }

    /// Waits until nothing is left to do. Returns the thread's number, if there is one.
    fn finish(&self, ends: bool) -> Option<libc::pid_t> {
        let mut state = self.state();
        state.hurries = true;
        state.ends |= ends;
        self.changed.notify_all();
        let is_at_it = |state: &mut State| {
            state.is_busy || !state.jobs.is_empty() || matches!(state.thread, Thread::Begins)
        };
        let thread = match state.thread {
            Thread::Runs(thread) => Some(thread),
            _ => None,
        };
        let waited = self
            .changed
            .wait_timeout_while(state, PATIENCE, is_at_it)
            .unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = waited;
        state.hurries = false;
        match state.thread {
            Thread::Runs(thread) => Some(thread),
            _ => thread,
        }
    }
}

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
    /// Interfaces are opened by a thread that this makes.
    pub fn open_beside(&self, spawn: Spawn) {
        let _ = self.spawn.set(spawn);
    }

    /// Opens a closed interface; goes on without it if that takes too long.
    pub(super) fn open_with_patience(
        &'static self,
        index: u32,
        opening: Opening<'static, S>,
    ) -> Outcome<S> {
        // Nothing comes of it, and at once, where the thread is in another namespace or another
        // process has the interface.
        let takes_time = || self.network.is_here() && self.network.xdp_program(index).is_none();
        let spawn = self.spawn.get().filter(|_| takes_time());
        let Some(spawn) = spawn else {
            return self.open_closed(index, opening);
        };
        let wait = self.settings.open_wait;
        let handover = Arc::new(Handover {
            work: Mutex::new(Work::ToDo(opening)),
            done: Condvar::new(),
        });
        let theirs = Arc::clone(&handover);
        let job = Box::new(move || {
            if let Some(opening) = theirs.take() {
                let open = || self.open_closed(index, opening);
                let outcome = catch_unwind(AssertUnwindSafe(open));
                *theirs.work() = Work::Done(outcome.unwrap_or(Err(Reason::OpenFailed)));
                theirs.done.notify_all();
                self.finish_late();
            }
        });
        let head_start = if wait.is_zero() {
            HEAD_START
        } else {
            Duration::ZERO
        };
        if !self.opener.run(*spawn, job, Instant::now() + head_start) {
            let opening = handover.take().ok_or(Reason::OpenFailed)?;
            return self.open_closed(index, opening);
        }
        let is_under_way = |work: &mut Work<S>| !matches!(work, Work::Done(_));
        let (work, _) = handover
            .done
            .wait_timeout_while(handover.work(), wait, is_under_way)
            .unwrap_or_else(PoisonError::into_inner);
        match *work {
            Work::Done(outcome) => outcome,
            _ => {
                // The opener says that it is done under the same lock, and looks for this then.
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

    /// How many threads there are for opening.
    pub fn opening_threads(&self) -> u32 {
        let opener = !matches!(self.opener.state().thread, Thread::None);
        u32::from(opener) + self.backend.threads()
    }

    /// Waits until what is being opened is open: the caller is about to lose a right that it takes.
    /// No lock may be held.
    pub fn wait_for_opener(&self) {
        self.opener.finish(false);
    }

    /// The same, and the threads are gone then. No lock may be held.
    pub fn end_opener(&self) {
        let threads = [self.opener.finish(true), self.backend.end_thread()];
        let begun = Instant::now();
        let is_there = |thread: &Option<libc::pid_t>| thread.is_some_and(sys::has_thread);
        while threads.iter().any(is_there) && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Whether an interface is being opened, or was since this was last asked, by a thread for
    /// which somebody did not wait.
    pub fn opens_late(&self) -> bool {
        self.states.is_missed() || self.is_opened_late.load(Ordering::SeqCst)
    }

    /// Whether one was opened of which others were told that it is being opened.
    pub fn take_opened_late(&self) -> bool {
        self.is_opened_late.swap(false, Ordering::SeqCst)
    }
}
