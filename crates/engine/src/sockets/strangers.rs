//! Sockets of other processes at a port of ours, which a broker may have given their part of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dev_core::Flow;
use links::interface::Interface;
use links::receiver::Receiver;

/// How long one may need to join: its library opens the interface.
const GRACE: Duration = Duration::from_secs(1);

/// Those that have not joined, by inode numbers, and since when they are known.
#[derive(Debug, Default)]
pub(crate) struct Strangers(Mutex<HashMap<u64, Instant>>);

impl Strangers {
    /// Whether `others` have their part of the flows of a socket of ours, or may be about to.
    pub(crate) fn may_have_part<S: Receiver>(
        &self,
        flows: &[(&'static Interface<S>, Flow)],
        others: &[u64],
    ) -> bool {
        if flows.is_empty() || !flows.iter().all(|(interface, _)| interface.is_joint()) {
            return false;
        }
        let mut seen = self.lock();
        let mut ports = flows.iter().filter(|(_, flow)| flow.peer.is_none());
        if ports.all(|(interface, flow)| interface.have_joined(flow, others)) {
            others.iter().for_each(|it| _ = seen.remove(it));
            return true;
        }
        let now = Instant::now();
        let is_young = |inode: &u64| now < *seen.entry(*inode).or_insert(now) + GRACE;
        others.iter().all(is_young)
    }

    /// Forgets the others.
    pub(crate) fn retain(&self, is_there: impl Fn(u64) -> bool) {
        self.lock().retain(|inode, _| is_there(*inode));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
