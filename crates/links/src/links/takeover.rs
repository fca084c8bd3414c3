//! Interfaces that another process holds: who that is, and taking them over when it has gone.
//!
//! The kernel does not announce that an XDP program has left an interface, but the end of a process
//! can be waited for (pidfd_open(2)): the internal thread does. Sockets that wait for an interface
//! are the kernel's meanwhile and sleep in calls from which they can be woken, so that they can go
//! over at any moment.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{MutexGuard, PoisonError};

use dev_core::{Backend, LinkSpec};
use libc::c_int;

use crate::interface::Interface;
use crate::links::Links;
use crate::links::holder::Holder;
use crate::links::not_open::NotOpen;
use crate::network::InterfaceFacts;
use crate::receiver::Receiver;

/// An ancestor that may leave interfaces to this process, though it lives.
#[derive(Debug)]
pub(super) struct Leaving {
    /// Counts how often it has left some.
    times: &'static AtomicU32,
    /// The last count that is known.
    known: u32,
}

impl<S: Receiver> Links<S> {
    /// An ancestor counts from here on how often it leaves interfaces to others.
    pub fn holder_may_leave(&self, times: &'static AtomicU32) {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        if !leaving.iter().any(|it| std::ptr::eq(it.times, times)) {
            let known = times.load(Ordering::Acquire);
            leaving.push(Leaving { times, known });
        }
    }

    /// Whether one has left some since this was last asked.
    fn has_holder_left(&self) -> bool {
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut has_left = false;
        for it in &mut *leaving {
            let times = it.times.load(Ordering::Acquire);
            has_left |= std::mem::replace(&mut it.known, times) != times;
        }
        has_left
    }

    /// Whether an interface is in the hands of another process, or is being opened late: the
    /// internal thread waits for that.
    pub fn awaits_interface(&self) -> bool {
        self.waits_for_holder() || self.opens_late()
    }

    /// Whether an interface is in the hands of another process: the internal thread waits for its
    /// end.
    pub fn waits_for_holder(&self) -> bool {
        self.is_held.load(Ordering::Relaxed)
    }

    /// An interface is held by another process, from here on or as before. `known`: by whom it was.
    pub(super) fn is_held_by_other(
        &self,
        index: u32,
        name: &str,
        known: Option<NotOpen>,
    ) -> NotOpen {
        let program = self.network.xdp_program(index);
        let holder = known
            .and_then(NotOpen::into_holder)
            .or_else(|| Holder::find(program?, &self.segment.publishers()))
            .or_else(|| Holder::find_resting(&self.segment, index, name));
        let text = match &holder {
            Some(holder) => format!("held by {holder}; taken over when that ends"),
            None => "held by another process, or by a program of `ip link`".to_owned(),
        };
        self.segment.note(name, NOTE_TOPIC, &text);
        NotOpen::held(name, holder)
    }

    /// An interface is among those that could not be opened: has the internal thread wait for its
    /// holder's end.
    pub(super) fn wait_for_holder(&self) {
        self.is_held.store(true, Ordering::SeqCst);
        self.internal_thread.call();
    }

    /// What a broker has opened, that has ended, is for the next one.
    pub(super) fn wait_for_brokers(&self) {
        for interface in self.states.open() {
            if !interface.is_lost() || !interface.has_broker_ended() {
                continue;
            }
            let LinkSpec { index, name, .. } = interface.spec();
            self.states.note_left(*index, NotOpen::broker_ended(name));
            self.left_by_broker().push(interface);
            let text = "the broker has ended; past the kernel again when there is one";
            log::info!("{name}: {text}");
            self.segment.note(name, NOTE_TOPIC, text);
            self.wait_for_holder();
        }
    }

    fn left_by_broker(&self) -> MutexGuard<'_, Vec<&'static Interface<S>>> {
        let left = self.left_by_broker.lock();
        left.unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether there is a broker again for what the last one has left a while ago, which it
    /// can have from here on.
    fn look_for_broker(&self) -> bool {
        let mut due = Vec::new();
        self.states.for_each_failed(|index, not_open| {
            if not_open.awaits_broker() && not_open.is_due() {
                due.push(index);
            }
        });
        if due.is_empty() {
            return false;
        }
        // By now its sockets have gone to the kernel.
        let is_due = |it: &mut &Interface<S>| due.contains(&it.spec().index);
        let left: Vec<_> = self.left_by_broker().extract_if(.., is_due).collect();
        left.iter().for_each(|it| it.let_go());
        self.backend.has_broker()
    }

    /// Opened after all.
    pub(super) fn forget_holder(&self, name: &str) {
        self.segment.note(name, NOTE_TOPIC, "");
    }

    /// Who holds the interfaces that have the address, or one of all if it is unspecified.
    pub fn holders_of(&self, address: std::net::IpAddr, interfaces: &[InterfaceFacts]) -> String {
        let has_it = |index: u32| {
            let mut owners = interfaces.iter().filter(|it| it.spec.index == index);
            owners.any(|it| address.is_unspecified() || it.addresses.contains(&address))
        };
        let mut texts = Vec::new();
        self.states.for_each_failed(|index, not_open| {
            if let Some(held) = &not_open.held
                && has_it(index)
            {
                texts.push(match &held.holder {
                    Some(holder) => format!("{}: {holder}", held.name),
                    None => held.name.clone(),
                });
            }
        });
        texts.sort();
        texts.join(", ")
    }

    /// For the internal thread to wait for: says what becomes readable when a holder ends.
    pub fn watch_holders(&self, mut watch: impl FnMut(c_int)) {
        if !self.waits_for_holder() {
            return;
        }
        self.states.for_each_failed(|_, not_open| {
            if let Some(holder) = not_open.holder() {
                watch(holder.fd());
            }
        });
    }

    /// Gives what nobody holds any more another chance to be opened.
    pub fn take_over(&self) -> TakeOver {
        if !self.waits_for_holder() {
            return TakeOver::default();
        }
        // In this order: what is found to be held from here on says so itself.
        self.is_held.store(false, Ordering::SeqCst);
        let mut is_free = self.look_for_broker();
        let mut awaits_broker = false;
        let mut waiting = Vec::new();
        self.states.for_each_failed(|index, not_open| {
            awaits_broker |= not_open.awaits_broker();
            if let Some(held) = &not_open.held
                && !held.awaits_broker
            {
                let is_due = not_open.is_due();
                let has_left = |it: &Holder| it.has_left(&self.segment, index, &held.name);
                // It may live on without the interface.
                let has_it = |it: &Holder| it.is_alive() && !(is_due && has_left(it));
                let has_it = held.holder.as_ref().map(has_it);
                waiting.push((index, held.name.clone(), has_it, is_due));
            }
        });
        if awaits_broker || !waiting.is_empty() {
            self.is_held.store(true, Ordering::SeqCst);
        }
        let has_left = self.has_holder_left();
        let mut soon = false;
        for (index, name, has_it, is_due) in waiting {
            let is_held =
                !has_left && has_it.unwrap_or_else(|| self.network.xdp_program(index).is_some());
            // If it is nobody's just after an attempt, the device has not noticed the end of its
            // holder yet.
            soon |= has_it.is_none() && !is_due;
            if !is_held {
                log::info!("{name}: nobody holds it any more");
                self.states.forget_failure(index);
                is_free = true;
            }
        }
        TakeOver {
            is_free,
            look_soon: soon,
        }
    }
}

/// What came of looking who holds interfaces.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakeOver {
    /// Nobody holds one any more: sockets that wait for it can go over.
    pub is_free: bool,
    /// A holder has ended, but the device has not noticed.
    pub look_soon: bool,
}

/// The note about an interface says by whom it is held.
const NOTE_TOPIC: &str = "holder";
