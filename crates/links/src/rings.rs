//! Which ring a socket sends or receives by: `VMA_RING_ALLOCATION_LOGIC_TX` and `_RX`,
//! `VMA_RING_MIGRATION_RATIO_TX` and `_RX`, `VMA_RING_LIMIT_PER_INTERFACE`, and what a socket asks
//! for itself with `SO_VMA_RING_ALLOC_LOGIC`. What is decided here depends on its arguments only.

mod cores;
mod table;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr};

use vma_config::RingLogic;

pub use cores::leave_thread_free;
pub use table::{Reserved, SharedRingTable};

/// What the configuration, or a socket for itself, says of rings of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingPolicy {
    sharers: RingSharers,
    /// Calls between two looks at who uses a socket; 0: there are none.
    migration_ratio: u32,
    /// The most rings of an interface; 0 for as many as it has queues.
    limit: u32,
}

/// Which sockets have a ring together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingSharers {
    /// Those that have in common what this says.
    By(RingLogic),
    /// Those that name this number (`RING_LOGIC_PER_USER_ID`).
    Numbered(u32),
}

/// Calls that the same other thread or core has to make before a socket is moved to its ring, as in
/// the original (`CANDIDATE_STABILITY_ROUNDS`).
const STABLE_CALLS: u32 = 20;

impl Default for RingPolicy {
    fn default() -> Self {
        Self::ONE_RING
    }
}

impl RingPolicy {
    /// Everything goes by one ring.
    pub const ONE_RING: Self = Self::new(RingLogic::PerInterface, 0, 0);

    /// `migration_ratio`: calls between two looks at who uses a socket; 0 for none. `limit`: the
    /// most rings of an interface; 0 for no limit.
    pub const fn new(logic: RingLogic, migration_ratio: u32, limit: u32) -> Self {
        Self {
            sharers: RingSharers::By(logic),
            migration_ratio,
            limit,
        }
    }

    /// The same for a socket that shares its ring with others than most do.
    pub const fn with_sharers(self, sharers: RingSharers) -> Self {
        Self { sharers, ..self }
    }

    /// The most rings that there is a use for on one interface. `some_choose`: sockets choose rings
    /// for themselves, too.
    pub fn rings_max(self, some_choose: bool) -> u32 {
        match (self.sharers, self.limit) {
            (RingSharers::By(RingLogic::PerInterface), _) if !some_choose => 1,
            (_, 0) => u32::MAX,
            (_, limit) => limit,
        }
    }

    fn is_by(self, logic: RingLogic) -> bool {
        self.sharers == RingSharers::By(logic)
    }

    /// Calls between two looks at who uses a socket; 0: whose ring it has never changes.
    fn migration_ratio(self) -> u32 {
        if self.is_by(RingLogic::PerThread) || self.knows_cores() {
            self.migration_ratio
        } else {
            0
        }
    }

    /// Whether the core matters on which a thread runs.
    pub fn knows_cores(self) -> bool {
        self.is_by(RingLogic::PerCore) || self.attaches_threads()
    }

    /// Whether threads are to stay on their cores.
    pub fn attaches_threads(self) -> bool {
        self.is_by(RingLogic::PerCoreAttached)
    }
}

/// What those have in common that share a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RingKey {
    Interface,
    Address(IpAddr),
    Socket(usize),
    Thread(usize),
    Core(u32),
    Number(u32),
}

/// Who uses a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingUser {
    /// Which socket it is: a number of its own.
    pub socket: usize,
    /// The thread that made the socket, or uses it by now.
    pub thread: usize,
    /// The core that thread ran on.
    pub core: u32,
    /// What its rings are chosen by.
    pub policy: RingPolicy,
}

impl RingUser {
    /// The calling thread, with a socket, where it runs now. A thread that is to stay on its core
    /// stays there from here on. A few system calls at most.
    pub fn present(policy: RingPolicy, socket: usize) -> Self {
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
            policy,
        }
    }

    /// The same under a lock: the thread stays free to move.
    pub fn passing(policy: RingPolicy, socket: usize) -> Self {
        Self {
            socket,
            thread: dev_core::lock::thread_token(),
            core: if policy.knows_cores() {
                sys::current_cpu()
            } else {
                0
            },
            policy,
        }
    }
}

impl RingUser {
    /// What a ring is chosen by, for packets that are sent from `source`, or received there.
    pub fn key(self, source: IpAddr) -> RingKey {
        match self.policy.sharers {
            RingSharers::Numbered(number) => RingKey::Number(number),
            RingSharers::By(logic) => match logic {
                RingLogic::PerInterface => RingKey::Interface,
                RingLogic::PerAddress => RingKey::Address(source),
                RingLogic::PerSocket => RingKey::Socket(self.socket),
                RingLogic::PerThread => RingKey::Thread(self.thread),
                RingLogic::PerCore | RingLogic::PerCoreAttached => RingKey::Core(self.core),
            },
        }
    }
}

/// When a socket is moved to the ring of another thread or core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Migration {
    /// Calls until it is looked who uses the socket; 0: it never is.
    calls_left: u32,
    /// Who has been seen to use it once.
    candidate: Option<RingKey>,
}

impl Migration {
    pub fn new(policy: RingPolicy) -> Self {
        Self {
            calls_left: policy.migration_ratio(),
            candidate: None,
        }
    }

    /// Counts a call. Whether it is to be looked now who makes it; [`Self::moves`] follows.
    #[inline]
    pub fn count_call(&mut self) -> bool {
        if self.calls_left == 0 {
            return false;
        }
        self.calls_left -= 1;
        self.calls_left == 0
    }

    /// Calls until it is to be looked who uses the socket; 0: it never is.
    pub fn calls_left(&self) -> u32 {
        self.calls_left
    }

    /// Whether a socket goes over from its own user to the present one, by whose ring it sends or
    /// receives then. Neither thread nor core has an address.
    pub fn moves(&mut self, own: RingUser, present: RingUser) -> bool {
        let ratio = present.policy.migration_ratio();
        let key = |user: RingUser| user.key(Ipv4Addr::UNSPECIFIED.into());
        self.calls_left = ratio;
        if key(own) == key(present) {
            self.candidate = None;
            return false;
        }
        if self.candidate.replace(key(present)) == Some(key(present)) {
            self.candidate = None;
            return true;
        }
        self.calls_left = STABLE_CALLS.min(ratio);
        false
    }
}
