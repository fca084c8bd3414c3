//! The side of a descendant, for which the engine of its parent is a memory: the table says which
//! descriptors it inherited. No lock of that engine is taken: at the fork another thread may have
//! held it. Nothing is counted either: the counters are the parent's, in memory that both share.

use std::sync::TryLockError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use descriptors::own;
use dev_core::Backend;
use libc::c_int;
use links::{wait, watch};

use crate::engine::kinds::{AnySocket, Object};

use crate::engine::{Engine, EpollSet};
use crate::mux;
use crate::process::recall_channel::Notified;
use crate::sockets::stack::Stack;
use crate::sockets::{held, interrupt, seats};

/// How long a descendant waits for the owner at most. An owner that is stopped makes it wait this
/// long, once a socket. A datagram may be lost that way, and a stream be broken, which a busy
/// machine is not to do.
const PATIENCE_NSEC: u64 = 100_000_000;
const PATIENCE_FOR_STREAMS_NSEC: u64 = 10_000_000_000;
/// How often it looks meanwhile whether the owner still lives.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

impl<B: Backend> Engine<B> {
    /// Called in a child of `fork(2)`, in which this engine is its parent's from here on. `older`
    /// is what was its parent's already. The descriptors of the library are closed, so that the
    /// interface's packets stay with the parent and end with it. Async-signal-safe.
    pub fn become_inherited(&'static self, older: *mut Self) {
        self.older.store(older, Ordering::Relaxed);
        own::close_in_child();
        wait::forget_stock();
        held::forget();
        seats::forget();
        watch::forget();
        interrupt::sleep_ends();
        mux::forget_alarm();
    }

    /// The engine of the process that forked this one's.
    pub fn older(&self) -> Option<&'static Self> {
        // SAFETY: null, or the engine of an ancestor, which is never freed (see
        // `become_inherited`).
        unsafe { self.older.load(Ordering::Relaxed).as_ref() }
    }

    /// A descendant is about to use an inherited descriptor for more than sending: what it stands
    /// for is the kernel's from here on, for everybody.
    pub fn inherited_is_used(&self, fd: c_int) {
        match self.table.get(fd) {
            Some(Object::Udp(socket)) => {
                self.recall(AnySocket::Udp(socket));
                if let Some((shared, generation)) = socket.shared() {
                    shared.claim_from_adopter(generation);
                }
            }
            Some(Object::Tcp(socket)) => {
                self.recall(AnySocket::Tcp(socket));
                if sys::streams::listens(fd) {
                    // Who accepts from it is known later.
                    return;
                }
            }
            Some(Object::Epoll(set)) => self.recall_members(set),
            None => return,
        }
        self.table.remove(fd);
    }

    /// A descendant is about to take connections or datagrams from an inherited socket, to wait for
    /// some, or to set an option that the kernel's socket keeps: [`inherited`](Self::inherited)
    /// says later what comes of it.
    pub fn inherited_comes_back(&self, fd: c_int) {
        match self.table.get(fd) {
            Some(Object::Udp(socket)) => self.recall(AnySocket::Udp(socket)),
            _ => self.inherited_is_used(fd),
        }
    }

    /// Whether one of the descriptors from `first` to `last` is in the table.
    pub fn has_any(&self, first: u32, last: u32) -> bool {
        if first == last {
            return self.look_up(first.cast_signed()).is_some();
        }
        self.table.range(first, last).next().is_some()
    }

    /// A descendant closes the inherited descriptors from `first` to `last`.
    pub fn inherited_close(&self, first: u32, last: u32) {
        for fd in self.table.range(first, last) {
            self.table.remove(fd);
        }
    }

    /// Asks the owner for a socket and waits until the kernel has it.
    fn recall(&self, socket: AnySocket<B>) {
        let Some((shared, generation)) = socket.core().shared() else {
            return;
        };
        let patience = match socket {
            AnySocket::Udp(_) => PATIENCE_NSEC,
            AnySocket::Tcp(_) => PATIENCE_FOR_STREAMS_NSEC,
        };
        shared.request(generation);
        let deadline = sys::now_nsec() + patience;
        while shared.is_claimed(generation) {
            let notify = || {
                self.sharing
                    .recall_channel
                    .as_ref()
                    .map(|recall_channel| recall_channel.notify())
            };
            if notify() != Some(Notified::Delivered) || sys::now_nsec() >= deadline {
                return;
            }
            shared.wait(generation, LOOK_INTERVAL);
        }
    }

    fn recall_members(&self, set: &EpollSet<B>) {
        match set.try_members() {
            Ok(members) => members
                .registrations()
                .for_each(|member| self.recall(member.socket())),
            Err(TryLockError::Poisoned(members)) => members
                .into_inner()
                .registrations()
                .for_each(|member| self.recall(member.socket())),
            // A thread of the parent was changing the set at the fork: any socket may be in it.
            Err(TryLockError::WouldBlock) => {
                for (_, socket) in self.sockets() {
                    self.recall(socket);
                }
            }
        }
    }
}
