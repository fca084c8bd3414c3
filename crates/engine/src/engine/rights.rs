//! The program gives up rights (setuid(2), capset(2)): what only the privileged can do is done
//! before, or ends with the privilege.
//!
//! Of a connection past the kernel, the kernel's socket is under repair, and both to begin and to
//! end that takes `CAP_NET_ADMIN`. So all streams and listeners return to the kernel before the
//! right goes. Datagram sockets go on: what they need of the system is open. A program that lowers
//! its rights for a while keeps what it has (`sys::with_rights`).
//!
//! Credentials are a thread's own. The C library tells all threads of the process; a system call of
//! the program's own is the calling thread's only. The internal thread never keeps more than the
//! program's first thread has.

use dev_core::Backend;
use links::reason::Reason;
use sys::{Capabilities, LeaderStatus};

use crate::engine::Engine;
use crate::engine::kinds::Object;
use crate::process::credentials::{Change, Credentials};
use crate::process::thread_request::{LOOK_AT_RIGHTS, RIGHTS_WENT};

/// What no hook has seen: an instruction of the program's own, or a function that it has looked up
/// past the hooks.
const UNSEEN: &str = "by a system call that the library has not seen";

/// Whose credentials a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of every thread that the C library knows of.
    EveryThreads,
    /// Those of the calling thread.
    ThreadsOwn,
}

impl<B: Backend> Engine<B> {
    /// A call is about to change what the calling thread may do, or every thread. Returns whether
    /// connections have returned to the kernel for it.
    pub fn before_rights_change(&self, change: &Change, whose: Whose, call: &'static str) -> bool {
        if self.is_other_process() {
            return false;
        }
        let is_everyones = whose == Whose::EveryThreads && self.internal_thread.runs();
        if !goes_with(change, is_everyones) {
            return false;
        }
        // What is being opened takes it, and may stay open without.
        self.links.wait_for_opener();
        let goes = !self.secure_helper();
        if goes {
            self.rights_go(call);
        }
        goes
    }

    /// The right goes in a descendant that has not begun: it may accept from a listener that it has
    /// inherited later, past the kernel if a broker serves it as what it is now. Returns whether it
    /// has one.
    pub fn descendant_reserves_places(&self) -> bool {
        let listens =
            |fd| matches!(self.table.get(fd), Some(Object::Tcp(_))) && sys::streams::listens(fd);
        let has_listener = self.table.range(0, u32::MAX).any(listens);
        if has_listener {
            self.links.reserve_places_of_descendant();
        }
        has_listener
    }

    /// The call has been made. `went`: connections have returned for it.
    pub fn after_rights_change(&self, went: bool, whose: Whose, has_failed: bool) {
        if self.is_other_process() {
            return;
        }
        if went && has_failed {
            self.tcp.rights_go(None);
        }
        if whose == Whose::ThreadsOwn && !has_failed && self.internal_thread.runs() {
            self.thread_requests
                .ask(LOOK_AT_RIGHTS, || self.internal_thread.call());
        }
    }

    /// The kernel has refused what takes the right: it has gone unseen. The internal thread may
    /// have it still, for the last time.
    pub(super) fn rights_went_unseen(&self) {
        if self.internal_thread.runs() {
            self.thread_requests
                .ask(RIGHTS_WENT, || self.internal_thread.call());
        }
        // If it has not: what cannot be saved is told, and the next connections are the kernel's.
        self.rights_go(UNSEEN);
    }

    /// Has a broker go on with what takes the right, also for what is opened later. `false`: there
    /// is none.
    fn secure_helper(&self) -> bool {
        let has_places = self.links.reserve_places();
        has_places && self.links.are_joint() || sys::has_helper_for_options()
    }

    /// The right goes: streams and listeners are the kernel's from here on. No lock may be held.
    fn rights_go(&self, call: &'static str) {
        if self.tcp.rights_went().is_none() {
            self.tcp.rights_go(Some(call));
            log::debug!(
                "the process gives up CAP_NET_ADMIN ({call}): its connections are the kernel's from here on"
            );
        }
        if !self.tcp.has_streams() {
            return;
        }
        self.links.start_waiting();
        self.leave_streams_to_kernel_about(Reason::RightsGone, call);
        self.wait_for_returns();
        // A device without sockets of ours is faster without our program.
        let _control = self.control();
        self.links.leave_unused();
    }

    /// In the internal thread: the program may have less rights than this thread.
    pub(super) fn follow_rights(&self, leader: &LeaderStatus) {
        let (Ok(own), Ok(users)) = (sys::capabilities(), sys::users()) else {
            return;
        };
        let all = Credentials {
            permitted: leader.capabilities.permitted,
            ..as_credentials(own, users)
        };
        let goes = as_credentials(own, users).may_administer() && !all.may_administer();
        if goes && !self.secure_helper() {
            self.rights_go(UNSEEN);
        }
        let has_more = own.permitted & !leader.capabilities.permitted != 0;
        if has_more || users != leader.users {
            sys::become_like(leader.groups, leader.users, &leader.capabilities);
            // Nor have those. There are others when they are needed.
            self.links.end_opener();
        }
    }

    /// In the internal thread: another thread has lost the right.
    pub(super) fn answer_rights_went(&self) {
        self.rights_go(UNSEEN);
    }
}

/// Whether the right to administer the network goes with a change of credentials of the calling
/// thread. `is_everyones`: that of the library's thread, too.
pub fn goes_with(change: &Change, is_everyones: bool) -> bool {
    credentials().is_some_and(|mut now| {
        if is_everyones {
            // What the program has asked for so that capabilities are kept is a thread's own, too:
            // the internal one loses them.
            now.secure_bits = 0;
        }
        let after = now.after(change);
        now.may_administer() && after.is_some_and(|after| !after.may_administer())
    })
}

/// Those of the calling thread.
fn credentials() -> Option<Credentials> {
    let mut credentials = as_credentials(sys::capabilities().ok()?, sys::users().ok()?);
    credentials.secure_bits = sys::secure_bits().ok()?;
    Some(credentials)
}

fn as_credentials(sets: Capabilities, users: [u32; 3]) -> Credentials {
    Credentials {
        users,
        effective: sets.effective,
        permitted: sets.permitted,
        inheritable: sets.inheritable,
        secure_bits: 0,
    }
}
