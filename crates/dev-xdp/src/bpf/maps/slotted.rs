//! A set whose members are mostly found without a hash, which takes 50 ns a packet: an array stands
//! in front of it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::super::error::BpfError;
use super::super::syscall::{Map, MapKind, Name};
use super::{PRESENT, WITH_EXEMPTIONS};

/// One for each value of a byte of the key.
const SLOTS: u32 = 256;

/// What all bytes of a slot are that a key has left: no key ends so.
const ELSEWHERE: u8 = u8::MAX;

/// Keys that are there.
#[derive(Debug)]
pub(in super::super) struct Slotted<const KEY: usize> {
    all: Map<KEY, 4>,
    /// In each slot one of the keys. Zeros if there is none that would have this slot, and
    /// [`ELSEWHERE`] if there is, perhaps.
    slots: Map<4, KEY>,
}

impl<const KEY: usize> Slotted<KEY> {
    /// Names of the set and of the array, and what is said when they cannot be created.
    pub(super) fn create(
        (name, attempt): (Name, &'static str),
        (slots_name, slots_attempt): (Name, &'static str),
        capacity: u32,
    ) -> Result<Self, BpfError> {
        Ok(Self {
            all: Map::create(MapKind::Hash, name, capacity, attempt)?,
            slots: Map::create(MapKind::Array, slots_name, SLOTS, slots_attempt)?,
        })
    }

    pub(super) fn add(&self, key: &[u8; KEY], slot: u8) -> io::Result<()> {
        self.all.update(key, &PRESENT.to_ne_bytes())?;
        // Another key that had the slot is found in the map.
        self.slots.update(&index(slot), key)
    }

    pub(super) fn mark_exemptions(&self, key: &[u8; KEY], slot: u8) -> io::Result<()> {
        self.all.update(key, &WITH_EXEMPTIONS.to_ne_bytes())?;
        // What is in a slot has none.
        self.leave_slot(key, slot)
    }

    pub(super) fn remove(&self, key: &[u8; KEY], slot: u8) -> io::Result<()> {
        self.leave_slot(key, slot)?;
        self.all.delete(key)
    }

    fn leave_slot(&self, key: &[u8; KEY], slot: u8) -> io::Result<()> {
        if self.slots.lookup(&index(slot))? == Some(*key) {
            self.slots.update(&index(slot), &[ELSEWHERE; KEY])?;
        }
        Ok(())
    }

    pub(super) fn lookup(&self, key: &[u8; KEY]) -> io::Result<Option<[u8; 4]>> {
        self.all.lookup(key)
    }

    pub(in super::super) fn all_fd(&self) -> BorrowedFd<'_> {
        self.all.as_fd()
    }

    pub(in super::super) fn slots_fd(&self) -> BorrowedFd<'_> {
        self.slots.as_fd()
    }
}

fn index(slot: u8) -> [u8; 4] {
    u32::from(slot).to_ne_bytes()
}
