//! Which interfaces were opened, are being opened, or could not be.
//!
//! To open a device takes milliseconds to seconds. No lock is held meanwhile; only who needs that
//! very interface for a socket that is being bound waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::interface::Interface;
use crate::links::not_open::NotOpen;
use crate::reason::Reason;
use crate::receiver::Receiver;

/// The state of each interface that there was a use for, by index.
#[derive(Debug)]
pub(super) struct States<S: Receiver> {
    states: Mutex<HashMap<u32, State<S>>>,
    opened: Condvar,
    /// Somebody was told of an interface that it is being opened, and did not wait.
    is_missed: AtomicBool,
}

#[derive(Debug)]
enum State<S: Receiver> {
    Open(&'static Interface<S>),
    /// A thread is at it.
    Opening,
    Failed(NotOpen),
}

/// Why there is no open interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It may be opened now.
    Closed,
    /// Another thread opens it.
    Opening,
    /// For this reason, which stays for a while.
    Refused(Reason),
}

/// The right to open an interface, and the duty to say what came of it.
#[must_use]
#[derive(Debug)]
pub(super) struct Opening<'a, S: Receiver> {
    states: &'a States<S>,
    index: u32,
    /// What came of the last attempt, if there was one.
    pub(super) before: Option<NotOpen>,
    outcome: Option<Result<&'static Interface<S>, NotOpen>>,
    tried: bool,
}

impl<S: Receiver> States<S> {
    pub(super) fn new() -> Self {
        Self {
            states: Mutex::new(HashMap::new()),
            opened: Condvar::new(),
            is_missed: AtomicBool::new(false),
        }
    }

    /// The interface, if it is open.
    pub(super) fn get(&self, index: u32) -> Result<&'static Interface<S>, Absent> {
        let found = look_up(&self.states(), index);
        if matches!(found, Err(Absent::Opening)) {
            self.note_missed();
        }
        found
    }

    /// The same, after any other thread has opened it that is at it, if that is within `wait`.
    pub(super) fn get_when_opened(
        &self,
        index: u32,
        wait: Duration,
    ) -> Result<&'static Interface<S>, Absent> {
        let is_opening = |states: &mut HashMap<u32, State<S>>| {
            matches!(states.get(&index), Some(State::Opening))
        };
        let (states, _) = self
            .opened
            .wait_timeout_while(self.states(), wait, is_opening)
            .unwrap_or_else(PoisonError::into_inner);
        look_up(&states, index)
    }

    pub(super) fn note_missed(&self) {
        self.is_missed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_missed(&self) -> bool {
        self.is_missed.load(Ordering::SeqCst)
    }

    pub(super) fn take_missed(&self) -> bool {
        self.is_missed.swap(false, Ordering::SeqCst)
    }

    /// Lets the caller open a closed interface, and nobody else.
    pub(super) fn begin(&self, index: u32) -> Result<Opening<'_, S>, Absent> {
        let mut states = self.states();
        match look_up(&states, index) {
            Err(Absent::Closed) => {}
            Err(absent) => return Err(absent),
            Ok(_) => return Err(Absent::Opening),
        }
        let before = states.insert(index, State::Opening);
        Ok(Opening {
            states: self,
            index,
            before: match before {
                Some(State::Failed(not_open)) => Some(not_open),
                _ => None,
            },
            outcome: None,
            tried: true,
        })
    }

    /// All that are open.
    pub(super) fn open(&self) -> Vec<&'static Interface<S>> {
        let mut open = Vec::new();
        self.for_each_open(|interface| open.push(interface));
        open
    }

    /// Calls `act` for all that are open.
    pub(super) fn for_each_open(&self, mut act: impl FnMut(&'static Interface<S>)) {
        for state in self.states().values() {
            if let State::Open(interface) = state {
                act(interface);
            }
        }
    }

    /// Why an interface could not be opened, if that was tried.
    pub(super) fn failure(&self, index: u32) -> Option<Reason> {
        match self.states().get(&index) {
            Some(State::Failed(not_open)) => Some(not_open.reason()),
            _ => None,
        }
    }

    /// Calls `act` for all that could not be opened.
    pub(super) fn for_each_failed(&self, mut act: impl FnMut(u32, &NotOpen)) {
        for (index, state) in &*self.states() {
            if let State::Failed(not_open) = state {
                act(*index, not_open);
            }
        }
    }

    /// An interface was left to whoever opens it.
    pub(super) fn note_left(&self, index: u32, held: NotOpen) {
        self.states().insert(index, State::Failed(held));
    }

    /// The same, and this process opens it again when it has a use for it.
    pub(super) fn note_closed(&self, index: u32) {
        self.states().remove(&index);
    }

    /// Gives an interface that could not be opened another chance.
    pub(super) fn forget_failure(&self, index: u32) {
        let mut states = self.states();
        if matches!(states.get(&index), Some(State::Failed(_))) {
            states.remove(&index);
        }
    }

    /// Gives what could not be opened, or was lost, another chance; not what a living process
    /// holds.
    pub(super) fn forget_failed(&self) {
        self.states().retain(|_, state| match state {
            State::Open(interface) => !interface.is_lost(),
            State::Opening => true,
            State::Failed(not_open) => not_open.is_awaited(),
        });
    }

    fn states(&self) -> MutexGuard<'_, HashMap<u32, State<S>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look_up<S: Receiver>(
    states: &HashMap<u32, State<S>>,
    index: u32,
) -> Result<&'static Interface<S>, Absent> {
    match states.get(&index) {
        Some(State::Open(interface)) if interface.is_lost() => {
            let has_ended = interface.has_broker_ended();
            Err(Absent::Refused(if has_ended {
                Reason::BrokerEnded
            } else {
                Reason::DeviceLost
            }))
        }
        Some(State::Open(interface)) => Ok(interface),
        Some(State::Opening) => Err(Absent::Opening),
        // What was in the way may be gone after a while.
        Some(State::Failed(not_open)) if !not_open.is_due() => {
            Err(Absent::Refused(not_open.reason()))
        }
        Some(State::Failed(_)) | None => Err(Absent::Closed),
    }
}

impl<S: Receiver> Opening<'_, S> {
    /// The interface is open.
    pub(super) fn succeeded(mut self, interface: &'static Interface<S>) {
        self.outcome = Some(Ok(interface));
    }

    /// It could not be opened.
    pub(super) fn failed(mut self, not_open: NotOpen) {
        self.outcome = Some(Err(not_open));
    }

    /// This thread cannot try.
    pub(super) fn given_up(mut self) {
        self.tried = false;
    }
}

impl<S: Receiver> Drop for Opening<'_, S> {
    fn drop(&mut self) {
        let mut states = self.states.states();
        if self.tried {
            let state = match self.outcome.take() {
                Some(Ok(interface)) => State::Open(interface),
                Some(Err(not_open)) => State::Failed(not_open),
                // The attempt panicked.
                None => State::Failed(NotOpen::failed()),
            };
            states.insert(self.index, state);
        } else {
            states.remove(&self.index);
        }
        drop(states);
        self.states.opened.notify_all();
    }
}
