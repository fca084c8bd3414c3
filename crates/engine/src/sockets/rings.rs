//! Which ring a socket sends or receives by: `VMA_RING_ALLOCATION_LOGIC_TX` and `_RX`, `VMA_RING_MIGRATION_RATIO_TX` and `_RX`,
//! `VMA_RING_LIMIT_PER_INTERFACE`. What is decided here depends on its arguments only.

mod cores;
mod table;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use vma_config::RingLogic;

use crate::sys;

pub(crate) use cores::leave_thread_free;
pub(crate) use table::{Reserved, SharedRingTable};

/// What the configuration says of rings of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPolicy {
    logic: RingLogic,
    /// Calls between two looks at who uses a socket; 0: there are none.
    migration_ratio: u32,
    /// The most rings of an interface; 0 for as many as it has queues.
    limit: u32,
}

/// Calls that the same other thread or core has to make before a socket is moved to its ring, as in the original
/// (`CANDIDATE_STABILITY_ROUNDS`).
const STABLE_CALLS: u32 = 20;

impl RingPolicy {
    /// Everything goes by one ring.
    pub const ONE_RING: Self = Self::new(RingLogic::PerInterface, 0, 0);

    /// `migration_ratio`: calls between two looks at who uses a socket; 0 for none. `limit`: the most rings of an interface; 0 for no
    /// limit.
    pub const fn new(logic: RingLogic, migration_ratio: u32, limit: u32) -> Self {
        let moves = matches!(
            logic,
            RingLogic::PerThread | RingLogic::PerCore | RingLogic::PerCoreAttached
        );
        Self {
            logic,
            // The others' keys never change.
            migration_ratio: if moves { migration_ratio } else { 0 },
            limit,
        }
    }

    /// The most rings that there is a use for on one interface.
    pub(crate) fn rings_max(self) -> u32 {
        match (self.logic, self.limit) {
            (RingLogic::PerInterface, _) => 1,
            (_, 0) => u32::MAX,
            (_, limit) => limit,
        }
    }

    /// Whether the core matters on which a thread runs.
    pub(crate) fn knows_cores(self) -> bool {
        matches!(self.logic, RingLogic::PerCore | RingLogic::PerCoreAttached)
    }

    /// Whether threads are to stay on their cores.
    pub(crate) fn attaches_threads(self) -> bool {
        self.logic == RingLogic::PerCoreAttached
    }

    /// What a ring is chosen by, for packets that `user` sends from `source`, or receives there.
    pub(crate) fn key(self, user: RingUser, source: IpAddr) -> RingKey {
        match self.logic {
            RingLogic::PerInterface => RingKey::Interface,
            RingLogic::PerAddress => RingKey::Address(source),
            RingLogic::PerSocket => RingKey::Socket(user.socket),
            RingLogic::PerThread => RingKey::Thread(user.thread),
            RingLogic::PerCore | RingLogic::PerCoreAttached => RingKey::Core(user.core),
        }
    }
}

/// What those have in common that share a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RingKey {
    Interface,
    Address(IpAddr),
    Socket(usize),
    Thread(usize),
    Core(u32),
}

/// Who uses a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RingUser {
    /// Which socket it is: a number of its own.
    pub(crate) socket: usize,
    /// The thread that made the socket, or uses it by now.
    pub(crate) thread: usize,
    /// The core that thread ran on.
    pub(crate) core: u32,
}

impl RingUser {
    /// The calling thread, with a socket, where it runs now. A thread that is to stay on its core stays there from here on. A few
    /// system calls at most.
    pub(crate) fn present(policy: RingPolicy, socket: usize) -> Self {
        Self {
            socket,
            thread: dev_core::lock::thread_token(),
            core: if policy.attaches_threads() {
                cores::attach_thread()
            } else if policy.knows_cores() {
                sys::current_cpu()
            } else {
                0
            },
        }
    }

    /// The same under a lock: the thread stays free to move.
    pub(crate) fn passing(policy: RingPolicy, socket: usize) -> Self {
        Self {
            socket,
            thread: dev_core::lock::thread_token(),
            core: if policy.knows_cores() {
                sys::current_cpu()
            } else {
                0
            },
        }
    }
}

/// When a socket is moved to the ring of another thread or core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Migration {
    /// Calls until it is looked who uses the socket; 0: it never is.
    calls_left: u32,
    /// Who has been seen to use it once.
    candidate: Option<RingKey>,
}

impl Migration {
    pub(crate) fn new(policy: RingPolicy) -> Self {
        Self {
            calls_left: policy.migration_ratio,
            candidate: None,
        }
    }

    /// Counts a call. Whether it is to be looked now who makes it; [`Self::moves`] follows.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        self.calls_left == 0
    }

    /// Calls until it is to be looked who uses the socket; 0: it never is.
    pub(crate) fn calls_left(&self) -> u32 {
        self.calls_left
    }

    /// Whether the socket, whose ring is chosen by `own`, is moved to the ring of `present`.
    pub(crate) fn moves(&mut self, policy: RingPolicy, own: RingKey, present: RingKey) -> bool {
        self.calls_left = policy.migration_ratio;
        if own == present {
            self.candidate = None;
            return false;
        }
        if self.candidate.replace(present) == Some(present) {
            self.candidate = None;
            return true;
        }
        self.calls_left = STABLE_CALLS.min(policy.migration_ratio);
        false
    }
}
