//! Interfaces of which the process makes no use are left to others: one that has handed its sockets
//! to its children or to the kernel would keep everybody else from going past the kernel.
//!
//! To open one again takes milliseconds and frames. So a process that comes back keeps it longer
//! each time.

use std::collections::HashMap;
use std::sync::PoisonError;

use crate::interface::Interface;
use crate::links::Links;
use crate::links::not_open::NotOpen;
use crate::receiver::Receiver;

/// How many looks in a row find no use before an interface is left for the first time.
const LOOKS_MIN: u32 = 3;
/// The same after the process has come back again and again.
const LOOKS_MAX: u32 = 600;

/// What is known of each interface that was open when somebody looked, by index.
#[derive(Debug, Default)]
pub(super) struct IdleTimes(HashMap<u32, IdleTime>);

/// How long an interface has been of no use.
#[derive(Debug)]
struct IdleTime {
    /// What it had sent at the last look.
    sent: u64,
    /// Looks in a row that have found no use.
    looks: u32,
    /// So many are enough to leave it.
    enough: u32,
}

impl IdleTime {
    fn new() -> Self {
        Self {
            sent: 0,
            looks: 0,
            enough: LOOKS_MIN,
        }
    }

    /// Somebody looks. Returns whether it has been of no use for long enough.
    fn look(&mut self, has_flows: bool, sent: u64) -> bool {
        let was_used = has_flows || std::mem::replace(&mut self.sent, sent) != sent;
        self.looks = if was_used { 0 } else { self.looks + 1 };
        self.looks >= self.enough
    }

    /// It is left: the next time later.
    fn leave(&mut self) {
        self.looks = 0;
        self.enough = (self.enough * 2).min(LOOKS_MAX);
    }
}

impl<S: Receiver> Links<S> {
    /// To be called twice a second: whether an interface has been of no use for a while, so that it
    /// might be [left](Self::leave_idle).
    pub fn has_idle(&self) -> bool {
        let mut times = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_idle = false;
        self.states.for_each_open(|interface| {
            if !interface.is_lost() {
                let time = times.0.entry(interface.spec().index);
                let time = time.or_insert_with(IdleTime::new);
                has_idle |= time.look(interface.has_flows(), interface.sent());
            }
        });
        has_idle
    }

    /// Leaves interfaces to other processes that have been of no use for a while. Whoever needs one
    /// later opens it again. Returns whether there were any. Under the control lock.
    pub fn leave_idle(&self) -> bool {
        let mut times = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |interface: &Interface<S>| {
            let time = times.0.get(&interface.spec().index);
            time.is_some_and(|time| time.looks >= time.enough)
        };
        let left = self.leave(is_idle);
        for interface in &left {
            let index = interface.spec().index;
            self.states.note_closed(index);
            if let Some(time) = times.0.get_mut(&index) {
                time.leave();
            }
        }
        !left.is_empty()
    }

    /// Leaves interfaces to other processes by which nobody receives here, and waits until they are
    /// free again. Returns whether there were any. Under the control lock.
    pub fn leave_unused(&self) -> bool {
        let left = self.leave(|_| true);
        for interface in &left {
            let spec = interface.spec();
            let held = NotOpen::held(&spec.name, None);
            self.states.note_left(spec.index, held);
        }
        if !left.is_empty() {
            self.wait_for_holder();
        }
        !left.is_empty()
    }

    /// Leaves those of the open interfaces that `may_go` and that have no flow.
    ///
    /// The frames in their rings are lost to the pool, so a process does not do this again and
    /// again.
    fn leave(&self, may_go: impl Fn(&Interface<S>) -> bool) -> Vec<&'static Interface<S>> {
        if self.pool.free_count() < self.pool.frame_count() as usize / 2 {
            return Vec::new();
        }
        self.start_waiting();
        let mut left = self.states.open();
        left.retain(|it| may_go(it) && it.leave_if_unused());
        for interface in &left {
            let name = &interface.spec().name;
            log::debug!("{name}: left to others");
            self.segment.event("device", name, "left to others");
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_until_left(time: &mut IdleTime, sent: u64) -> u32 {
        let looks = (1..).find(|_| time.look(false, sent)).unwrap();
        time.leave();
        looks
    }

    #[test]
    fn what_is_used_is_kept() {
        let mut time = IdleTime::new();
        assert!((0..1000).all(|_| !time.look(true, 0)), "it receives");
        assert!((1..1000).all(|sent| !time.look(false, sent)), "it sends");
        assert!(!time.look(false, 999) && !time.look(true, 999));
        assert_eq!(looks_until_left(&mut time, 999), LOOKS_MIN);
    }

    #[test]
    fn who_comes_back_keeps_it_longer() {
        let mut time = IdleTime::new();
        let looks: Vec<_> = (0..12).map(|_| looks_until_left(&mut time, 0)).collect();
        assert_eq!(looks[..4], [3, 6, 12, 24]);
        assert_eq!(looks.last(), Some(&LOOKS_MAX));
    }
}
