//! Which of an interface's rings belongs to whom.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::RingKey;

/// The rings of one interface: a key has a ring for as long as anybody uses it. While there are
/// more keys than rings, those that come get the ring that fewest have.
#[derive(Debug)]
pub(crate) struct RingTable {
    /// How many keys have each ring.
    pub(super) keys_of: Vec<u32>,
    pub(super) places: HashMap<RingKey, Place>,
}

#[derive(Debug)]
pub(super) struct Place {
    ring: usize,
    users: u32,
}

impl RingTable {
    /// `rings`: how many there are, at least one.
    pub(crate) fn new(rings: usize) -> Self {
        Self {
            keys_of: vec![0; rings.max(1)],
            places: HashMap::new(),
        }
    }

    /// The ring of a key, until [`Self::release`] was called as often as this.
    pub(crate) fn reserve(&mut self, key: RingKey) -> usize {
        if let Some(place) = self.places.get_mut(&key) {
            place.users += 1;
            return place.ring;
        }
        let fewest = self.keys_of.iter_mut().enumerate().min_by_key(|it| *it.1);
        let ring = fewest.map_or(0, |(ring, keys)| {
            *keys += 1;
            ring
        });
        self.places.insert(key, Place { ring, users: 1 });
        ring
    }

    /// One user of the key's ring less.
    pub(crate) fn release(&mut self, key: RingKey) {
        let Some(place) = self.places.get_mut(&key) else {
            return;
        };
        place.users -= 1;
        if place.users == 0 {
            self.keys_of[place.ring] -= 1;
            self.places.remove(&key);
        }
    }
}

/// The same for all threads. A leaf among the locks.
#[derive(Debug)]
pub struct SharedRingTable(Mutex<RingTable>);

impl SharedRingTable {
    pub fn new(rings: usize) -> Self {
        Self(Mutex::new(RingTable::new(rings)))
    }

    /// The ring of a key.
    pub fn reserve(&'static self, key: RingKey) -> Reserved {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Reserved {
            table: self,
            key,
            ring: table.reserve(key),
        }
    }
}

/// The use of a key's ring, until it is dropped.
#[derive(Debug)]
pub struct Reserved {
    table: &'static SharedRingTable,
    key: RingKey,
    ring: usize,
}

impl Reserved {
    pub fn ring(&self) -> usize {
        self.ring
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let table = &self.table.0;
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        table.release(self.key);
    }
}
