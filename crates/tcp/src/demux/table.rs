//! A hash table from flows to numbers: open addressing with linear probing, and removal that leaves no marks.
//!
//! Key and value are beside each other in one array, so that a look-up among millions touches one line of memory, where a
//! general map touches two. The hash is SipHash-1-3 under a secret key.

use siphasher::sip::SipHasher13;

/// The highest value that can be stored.
pub const MAX_VALUE: u32 = EMPTY - 1;

const EMPTY: u32 = u32::MAX;
const MIN_SLOTS: usize = 16;

/// Keys of `N` octets.
#[derive(Clone)]
pub struct FlowTable<const N: usize> {
    /// A power of two.
    slots: Vec<Slot<N>>,
    len: usize,
    hasher: SipHasher13,
}

#[derive(Clone, Copy, Debug)]
struct Slot<const N: usize> {
    key: [u8; N],
    value: u32,
}

const _: () = assert!(size_of::<Slot<12>>() == 16);
const _: () = assert!(size_of::<Slot<36>>() == 40);

impl<const N: usize> core::fmt::Debug for FlowTable<N> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "FlowTable({} of {})", self.len, self.slots.len())
    }
}

impl<const N: usize> FlowTable<N> {
    /// `key` is random and secret. There is no memory before the first entry.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            slots: Vec::new(),
            len: 0,
            hasher: SipHasher13::new_with_key(&key),
        }
    }

    #[inline]
    #[must_use]
    pub fn look_up(&self, key: &[u8; N]) -> Option<u32> {
        self.look_up_hashed(self.hash(key), key)
    }

    /// The first half of a look-up, which needs none of the table's memory.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8; N]) -> u64 {
        self.hasher.hash(key)
    }

    /// The second half; `hash` is [`hash`](Self::hash)'s.
    #[inline]
    #[must_use]
    pub fn look_up_hashed(&self, hash: u64, key: &[u8; N]) -> Option<u32> {
        let slot = self.slots.get(self.find(hash, key)?)?;
        (slot.value != EMPTY).then_some(slot.value)
    }

    /// Where the second half begins to look.
    #[inline]
    #[must_use]
    pub fn address(&self, hash: u64) -> *const u8 {
        let mask = self.slots.len().wrapping_sub(1);
        let slot = self.slots.get(home(hash, mask));
        slot.map_or(core::ptr::null(), |slot| core::ptr::from_ref(slot).cast())
    }

    /// # Errors
    /// The key is in: its value.
    pub fn insert(&mut self, key: &[u8; N], value: u32) -> Result<(), u32> {
        debug_assert!(value <= MAX_VALUE);
        if let Some(present) = self.look_up(key) {
            return Err(present);
        }
        // Three quarters at most, so that an empty slot is near.
        let slots = self.slots.len();
        if self.len >= slots.saturating_sub(slots / 4) {
            self.grow();
        }
        let index = self.find(self.hash(key), key);
        if let Some(slot) = index.and_then(|index| self.slots.get_mut(index)) {
            *slot = Slot { key: *key, value };
            self.len = self.len.saturating_add(1);
        }
        Ok(())
    }

    pub fn remove(&mut self, key: &[u8; N]) -> Option<u32> {
        let index = self.find(self.hash(key), key)?;
        let removed = self.slots.get(index)?.value;
        if removed == EMPTY {
            return None;
        }
        self.len = self.len.saturating_sub(1);
        self.close_gap(index);
        Some(removed)
    }

    /// Room for `additional` more without growing, which costs time in proportion to what is in.
    pub fn reserve(&mut self, additional: usize) {
        let needed = self.len.saturating_add(additional);
        while self.slots.len().saturating_sub(self.slots.len() / 4) < needed {
            self.grow();
        }
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the key is, or where it would be; `None` if there are no slots.
    #[inline]
    fn find(&self, hash: u64, key: &[u8; N]) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut index = home(hash, mask);
        loop {
            let slot = self.slots.get(index)?;
            if slot.value == EMPTY || slot.key == *key {
                return Some(index);
            }
            index = index.wrapping_add(1) & mask;
        }
    }

    /// Moves back what probing has put behind the slot that becomes free, so that it is found from where it belongs.
    fn close_gap(&mut self, mut gap: usize) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut index = gap;
        loop {
            index = index.wrapping_add(1) & mask;
            let Some(&slot) = self.slots.get(index) else {
                return;
            };
            if slot.value == EMPTY {
                break;
            }
            // It may move if its home is not between the gap and it.
            let home = home(self.hash(&slot.key), mask);
            let from_home = index.wrapping_sub(home) & mask;
            let from_gap = index.wrapping_sub(gap) & mask;
            if from_home >= from_gap {
                self.put(gap, slot);
                gap = index;
            }
        }
        self.put(gap, Slot::EMPTY);
    }

    fn grow(&mut self) {
        let slots = self.slots.len().saturating_mul(2).max(MIN_SLOTS);
        let old = core::mem::replace(&mut self.slots, vec![Slot::EMPTY; slots]);
        for slot in old {
            if slot.value != EMPTY
                && let Some(index) = self.find(self.hash(&slot.key), &slot.key)
            {
                self.put(index, slot);
            }
        }
    }

    fn put(&mut self, index: usize, slot: Slot<N>) {
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
    }
}

#[inline]
#[allow(
    clippy::cast_possible_truncation,
    reason = "the mask takes the lower bits"
)]
const fn home(hash: u64, mask: usize) -> usize {
    hash as usize & mask
}

impl<const N: usize> Slot<N> {
    const EMPTY: Self = Self {
        key: [0; N],
        value: EMPTY,
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    impl<const N: usize> FlowTable<N> {
        fn check(&self) {
            let in_use = self.slots.iter().filter(|slot| slot.value != EMPTY);
            assert_eq!(in_use.clone().count(), self.len);
            for slot in in_use {
                assert_eq!(self.look_up(&slot.key), Some(slot.value));
            }
            assert!(self.len <= self.slots.len() / 4 * 3);
        }
    }

    #[test]
    fn an_empty_table_has_no_memory_and_finds_nothing() {
        let mut table = FlowTable::<12>::new([1; 16]);
        assert_eq!(table.slots.capacity(), 0);
        assert_eq!(table.look_up(&[0; 12]), None);
        assert_eq!(table.remove(&[0; 12]), None);
        assert!(table.is_empty());
    }

    #[test]
    fn reserved_room_is_not_grown() {
        let mut table = FlowTable::<12>::new([1; 16]);
        table.reserve(1000);
        let slots = table.slots.len();
        for value in 0..1000_u32 {
            let mut key = [0; 12];
            key[..4].copy_from_slice(&value.to_be_bytes());
            assert_eq!(table.insert(&key, value), Ok(()));
        }
        assert_eq!(table.slots.len(), slots);
        table.check();
    }

    /// The key decides where flows collide.
    #[test]
    fn tables_with_different_keys_differ() {
        let (one, other) = (FlowTable::<12>::new([1; 16]), FlowTable::<12>::new([2; 16]));
        let same = (0..1000_u32)
            .filter(|value| {
                let mut key = [0; 12];
                key[..4].copy_from_slice(&value.to_be_bytes());
                home(one.hash(&key), 1023) == home(other.hash(&key), 1023)
            })
            .count();
        assert!(same < 20, "{same}");
    }

    #[derive(Clone, Debug)]
    enum Operation {
        Insert(u16, u32),
        Remove(u16),
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(
            // Few keys, so that removal meets what probing has displaced.
            operations in prop::collection::vec(
                prop_oneof![
                    3 => (0_u16..80, 0..=MAX_VALUE).prop_map(|(key, value)| Operation::Insert(key, value)),
                    2 => (0_u16..80).prop_map(Operation::Remove),
                ],
                1..400,
            ),
            secret in any::<[u8; 16]>(),
        ) {
            let mut table = FlowTable::<12>::new(secret);
            let mut model = HashMap::new();
            let key = |number: u16| {
                let mut key = [0; 12];
                key[10..].copy_from_slice(&number.to_be_bytes());
                key
            };
            for operation in operations {
                match operation {
                    Operation::Insert(number, value) => {
                        let expected = match model.get(&number) {
                            Some(present) => Err(*present),
                            None => Ok(()),
                        };
                        prop_assert_eq!(table.insert(&key(number), value), expected);
                        model.entry(number).or_insert(value);
                    }
                    Operation::Remove(number) => {
                        prop_assert_eq!(table.remove(&key(number)), model.remove(&number));
                    }
                }
                prop_assert_eq!(table.len(), model.len());
            }
            table.check();
            for number in 0..80 {
                prop_assert_eq!(table.look_up(&key(number)), model.get(&number).copied());
            }
        }
    }
}
