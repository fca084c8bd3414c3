//! Leaving every socket of the process to the kernel for good, those that will come, too.

use std::sync::atomic::Ordering;

use links::reason::Reason;

use crate::io_uring;
use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::sockets::stack::Stack;

/// How often is looked for rings at most, while sockets come into user space.
const INTERVAL_NSEC: u64 = 100_000_000;

impl<S: Stack> Host<S> {
    /// Whether sockets of any thread may be accelerated.
    pub(super) fn offloads_any(&self) -> bool {
        self.settings().offloaded_sockets || self.offloads_by_thread.load(Ordering::Relaxed)
    }

    /// Why no socket may come into user space, if none may.
    pub(crate) fn refusal(&self) -> Option<Reason> {
        if !self.offloads_any() {
            return Some(Reason::Disabled);
        }
        if io_uring::is_unseen() && self.withdrawn().is_none() {
            self.withdraws(Reason::IoUring, "since before its first socket");
        }
        let now = sys::tick_nsec();
        let looked = &self.withdrawal.looked_nsec;
        let last = looked.load(Ordering::Relaxed);
        let is_due = last == 0 || now.saturating_sub(last) >= INTERVAL_NSEC;
        if is_due && self.withdrawn().is_none() {
            looked.store(now, Ordering::Relaxed);
            if let Some(fd) = io_uring::find_unseen() {
                // Those that are in user space already follow when the internal thread looks.
                self.withdraws(Reason::IoUring, &format!("descriptor {fd}"));
            }
        }
        self.withdrawn()
    }

    pub(super) fn withdrawn(&self) -> Option<Reason> {
        let code = self.withdrawal.reason.load(Ordering::Relaxed) as usize;
        Reason::ALL.get(code).copied().filter(|_| code != 0)
    }

    /// Says why no socket comes into user space from here on. `false`: it is known.
    pub(super) fn withdraws(&self, reason: Reason, detail: &str) -> bool {
        let is_first = self
            .withdrawal
            .reason
            .swap(reason as u32, Ordering::Relaxed)
            == 0;
        if is_first {
            log::warn!("{} ({detail}): its sockets are the kernel's", reason.text());
        }
        is_first
    }

    /// Leaves every socket to the kernel for good.
    pub fn withdraw(&self, reason: Reason, detail: &str) {
        self.withdraws(reason, detail);
        self.links.start_waiting();
        let _control = self.control();
        for (_, socket) in self.sockets() {
            if socket.core().is_offloaded() {
                hand_over::hand_over(self, socket, reason, "");
            }
        }
    }

    /// In the internal thread: rings that were made meanwhile.
    pub(crate) fn look_for_rings(&self) {
        if self.highest_descriptor() < 0 {
            return;
        }
        match self.withdrawn() {
            Some(reason) => {
                let is_left = |socket: S| !socket.core().is_offloaded();
                if !self.sockets().all(|(_, socket)| is_left(socket)) {
                    self.withdraw(reason, "");
                }
            }
            None => {
                if let Some(fd) = io_uring::find_unseen() {
                    self.withdraw(Reason::IoUring, &format!("descriptor {fd}"));
                }
            }
        }
    }
}
