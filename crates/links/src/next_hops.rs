//! Next hops that sockets share: each is asked for once, until something changes that it depends
//! on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::network::{Network, NetworkChange, NextHopKey, Resolution};

/// The answer of the network.
#[derive(Debug)]
pub struct SharedNextHop {
    pub found: Resolution,
    is_current: AtomicBool,
    asked_at_nsec: u64,
}

impl SharedNextHop {
    /// Whether the answer still holds.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.is_current.load(Ordering::Acquire)
    }

    /// The kernel is asked again, if it was asked some time ago.
    #[cold]
    pub fn expire(&self) {
        if sys::tick_nsec().saturating_sub(self.asked_at_nsec) >= EXPIRY_NSEC {
            self.outdate();
        }
    }

    fn outdate(&self) {
        self.is_current.store(false, Ordering::Release);
    }
}

/// How often the kernel is asked again for what changes without a notification, such as a path MTU
/// that is forgotten.
const EXPIRY_NSEC: u64 = 1_000_000_000;

/// Entries before those are looked for that no socket uses any more.
const SWEEP_AT_MIN: usize = 1024;

/// All next hops in use.
#[derive(Debug, Default)]
pub struct NextHops(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    entries: HashMap<NextHopKey, Arc<SharedNextHop>>,
    sweep_at: usize,
    /// Counts changes.
    changes: u64,
}

impl NextHops {
    /// The next hop, asked of the network if it is not known.
    pub fn resolve(&self, network: &dyn Network, key: NextHopKey) -> Arc<SharedNextHop> {
        // Most networks send all that is for a destination one way: all sockets share the answer.
        let flow = key.flow.filter(|_| network.routes_by_flow());
        let key = NextHopKey { flow, ..key };
        let table = self.lock();
        if let Some(known) = table.entries.get(&key).filter(|known| known.is_current()) {
            return Arc::clone(known);
        }
        let changes = table.changes;
        drop(table);
        let found = network.next_hop(&key);
        let mut table = self.lock();
        // A change during the look-up makes the answer outdated, not wrong for good.
        let entry = Arc::new(SharedNextHop {
            found,
            is_current: AtomicBool::new(table.changes == changes),
            asked_at_nsec: sys::tick_nsec(),
        });
        if entry.is_current() {
            table.insert(key, Arc::clone(&entry));
        }
        entry
    }

    /// Forgets what a change may have made wrong, in every socket.
    pub fn outdate(&self, change: &NetworkChange) {
        let mut table = self.lock();
        table.changes += 1;
        table.entries.retain(|key, entry| {
            let keep = entry.is_current() && !change.concerns(key.destination, &entry.found);
            if !keep {
                entry.outdate();
            }
            keep
        });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, key: NextHopKey, entry: Arc<SharedNextHop>) {
        if self.entries.len() >= self.sweep_at.max(SWEEP_AT_MIN) {
            self.entries.retain(|_, entry| Arc::strong_count(entry) > 1);
            self.sweep_at = self.entries.len() * 2;
        }
        // Who asked at the same time has an entry of his own, which changes would not reach any
        // more.
        if let Some(other) = self.entries.insert(key, entry) {
            other.outdate();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{FixedNetwork, NextHop};
    use crate::reason::Reason;

    fn network() -> FixedNetwork {
        FixedNetwork {
            interfaces: Vec::new(),
            next_hop: NextHop::Kernel(Reason::Neighbour),
        }
    }

    fn key(destination: [u8; 4]) -> NextHopKey {
        NextHopKey {
            destination: destination.into(),
            source: None,
            tos: 0,
            output_interface: None,
            flow: None,
        }
    }

    #[test]
    fn an_answer_is_shared_until_something_changes() {
        let (hops, network) = (NextHops::default(), network());
        let near = hops.resolve(&network, key([10, 0, 0, 2]));
        let far = hops.resolve(&network, key([192, 0, 2, 1]));
        assert!(Arc::ptr_eq(
            &near,
            &hops.resolve(&network, key([10, 0, 0, 2]))
        ));
        let route = NetworkChange {
            routes: vec![([192, 0, 2, 0].into(), 24)],
            ..NetworkChange::default()
        };
        hops.outdate(&route);
        assert!(near.is_current() && !far.is_current());
        let fresh = hops.resolve(&network, key([192, 0, 2, 1]));
        assert!(fresh.is_current() && !Arc::ptr_eq(&far, &fresh));
        hops.outdate(&NetworkChange::everything(false));
        assert!(!near.is_current() && !fresh.is_current());
    }

    #[test]
    fn what_nobody_uses_is_forgotten() {
        let (hops, network) = (NextHops::default(), network());
        let used = hops.resolve(&network, key([10, 0, 0, 2]));
        let mut most = 0;
        for [_, _, c, d] in (0..5000_u32).map(u32::to_be_bytes) {
            drop(hops.resolve(&network, key([10, 1, c, d])));
            most = most.max(hops.lock().entries.len());
        }
        assert_eq!(most, SWEEP_AT_MIN);
        assert!(Arc::ptr_eq(
            &used,
            &hops.resolve(&network, key([10, 0, 0, 2]))
        ));
    }
}
