//! Interfaces that another process holds: who that is, and taking them over when it has gone.
//!
//! The kernel does not announce that an XDP program has left an interface, but the end of a process can be waited for
//! (pidfd_open(2)): the internal thread does. Sockets that wait for an interface are the kernel's meanwhile and sleep in calls
//! from which they can be woken, so that they can go over at any moment.

mod holder;

use std::sync::atomic::Ordering;

use dev_core::Backend;

use crate::engine::Engine;
use crate::sockets::network::InterfaceFacts;
use crate::sockets::reason::Reason;
use crate::sys;

pub(crate) use holder::Holder;

/// How long an interface that could not be opened is left alone.
const OPEN_AGAIN_NSEC: u64 = 1_000_000_000;

/// An interface that could not be opened.
#[derive(Debug)]
pub(crate) struct NotOpen {
    failed_nsec: u64,
    /// Another process has it.
    held: Option<Held>,
}

/// By whom, as far as that can be found out.
#[derive(Debug)]
struct Held {
    name: String,
    holder: Option<Holder>,
}

impl NotOpen {
    pub(crate) fn failed() -> Self {
        Self {
            failed_nsec: sys::tick_nsec(),
            held: None,
        }
    }

    fn held(name: &str, holder: Option<Holder>) -> Self {
        let name = name.to_owned();
        Self {
            held: Some(Held { name, holder }),
            ..Self::failed()
        }
    }

    pub(crate) fn reason(&self) -> Reason {
        match self.held {
            Some(_) => Reason::Held,
            None => Reason::OpenFailed,
        }
    }

    /// Whether it is to be tried again when somebody asks.
    pub(crate) fn is_due(&self) -> bool {
        sys::tick_nsec() >= self.failed_nsec + OPEN_AGAIN_NSEC
    }

    /// Whether somebody has it who is known and has not ended.
    pub(crate) fn is_awaited(&self) -> bool {
        self.holder().is_some_and(Holder::is_alive)
    }

    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.held.as_ref()?.holder.as_ref()
    }

    /// The holder, for another attempt that finds the interface held again.
    pub(crate) fn into_holder(self) -> Option<Holder> {
        self.held?.holder.filter(Holder::is_alive)
    }
}

impl<B: Backend> Engine<B> {
    /// Whether an interface is in the hands of another process: the internal thread waits for its end.
    pub fn waits_for_interface(&self) -> bool {
        self.waits_for_interface.load(Ordering::Relaxed)
    }

    /// An interface is held by another process, from here on or as before. `known`: by whom it was.
    pub(crate) fn interface_is_held(
        &self,
        index: u32,
        name: &str,
        known: Option<NotOpen>,
    ) -> NotOpen {
        let program = self.network().xdp_program(index);
        let holder = known
            .and_then(NotOpen::into_holder)
            .or_else(|| Holder::find(program?, &self.segment.publishers()));
        let text = match &holder {
            Some(holder) => format!("held by {holder}; taken over when that ends"),
            None => "held by another process, or by a program of `ip link`".to_owned(),
        };
        self.note_interface(name, NOTE_TOPIC, &text);
        NotOpen::held(name, holder)
    }

    /// An interface is among those that could not be opened: has the internal thread wait for its holder's end.
    pub(crate) fn wait_for_holder(&self) {
        self.waits_for_interface.store(true, Ordering::SeqCst);
        self.call_internal_thread();
    }

    /// Opened after all.
    pub(crate) fn interface_is_ours(&self, name: &str) {
        self.note_interface(name, NOTE_TOPIC, "");
    }

    /// Who holds the interfaces that have the address, or one of all if it is unspecified.
    pub(crate) fn holders_of(
        &self,
        address: std::net::Ipv4Addr,
        interfaces: &[InterfaceFacts],
    ) -> String {
        let has_it = |index: u32| {
            let mut owners = interfaces.iter().filter(|it| it.spec.index == index);
            owners.any(|it| address.is_unspecified() || it.addresses.contains(&address))
        };
        let mut texts = Vec::new();
        self.interfaces.for_each_failed(|index, not_open| {
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

    /// For the internal thread to wait for: adds what becomes readable when a holder ends.
    pub(crate) fn watch_holders(&self, fds: &mut Vec<libc::pollfd>) {
        if !self.waits_for_interface() {
            return;
        }
        self.interfaces.for_each_failed(|_, not_open| {
            if let Some(holder) = not_open.holder() {
                fds.push(libc::pollfd {
                    fd: holder.fd(),
                    events: libc::POLLIN,
                    revents: 0,
                });
            }
        });
    }

    /// Opens what nobody holds any more, and has sockets go over. Returns whether to look again soon: the holder has ended, but
    /// the device has not noticed.
    pub(crate) fn take_over(&self) -> bool {
        if !self.waits_for_interface() {
            return false;
        }
        // In this order: what is found to be held from here on says so itself.
        self.waits_for_interface.store(false, Ordering::SeqCst);
        let mut waiting = Vec::new();
        self.interfaces.for_each_failed(|index, not_open| {
            if let Some(held) = &not_open.held {
                let is_alive = held.holder.as_ref().map(Holder::is_alive);
                waiting.push((index, held.name.clone(), is_alive, not_open.is_due()));
            }
        });
        if !waiting.is_empty() {
            self.waits_for_interface.store(true, Ordering::SeqCst);
        }
        let mut soon = false;
        let mut is_free = false;
        for (index, name, is_alive, is_due) in waiting {
            let is_held = is_alive.unwrap_or_else(|| self.network().xdp_program(index).is_some());
            // If it is nobody's just after an attempt, the device has not noticed the end of its holder yet.
            soon |= is_alive.is_none() && !is_due;
            if !is_held {
                log::info!("{name}: nobody holds it any more");
                self.interfaces.forget_failure(index);
                is_free = true;
            }
        }
        if is_free {
            self.interfaces_are_back();
        }
        self.waits_for_interface() && (soon || is_free)
    }
}

/// The note about an interface says by whom it is held.
const NOTE_TOPIC: &str = "holder";
