//! A hash table from flows to numbers: open addressing with linear probing, and removal that leaves
//! no marks.
//!
//! Key and value are beside each other, so that a look-up among millions touches one line of
//! memory, where a general map touches two. What is probed are buckets of four slots, one cache
//! line for IPv4: where in it a flow is, no branch asks, since among many flows no processor can
//! foretell it. The hash is SipHash-1-3 under a secret key.

use siphasher::sip::SipHasher13;

/// The highest value that can be stored.
pub const MAX_VALUE: u32 = EMPTY - 1;

const EMPTY: u32 = u32::MAX;
/// Slots in a bucket.
const WAYS: usize = 4;
const MIN_BUCKETS: usize = 4;

/// Keys of `N` octets.
#[derive(Clone)]
pub struct ConnectionTable<const N: usize> {
    /// A power of two. A flow is in the first bucket from its home on that had room.
    buckets: Vec<Bucket<N>>,
    len: usize,
    hasher: SipHasher13,
}

#[derive(Clone, Copy, Debug)]
struct Slot<const N: usize> {
    key: [u8; N],
    value: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket<const N: usize>([Slot<N>; WAYS]);

const _: () = assert!(size_of::<Bucket<12>>() == 64);
const _: () = assert!(size_of::<Bucket<36>>() == 192);

impl<const N: usize> core::fmt::Debug for ConnectionTable<N> {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            formatter,
            "ConnectionTable({} of {})",
            self.len,
            self.slots()
        )
    }
}

impl<const N: usize> ConnectionTable<N> {
    /// `key` is random and secret. There is no memory before the first entry.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            buckets: Vec::new(),
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
        let (bucket, way) = self.find(hash, key)?;
        Some(self.buckets.get(bucket)?.0.get(way)?.value)
    }

    /// Where the second half begins to look.
    #[inline]
    #[must_use]
    pub fn address(&self, hash: u64) -> *const u8 {
        let mask = self.buckets.len().wrapping_sub(1);
        let bucket = self.buckets.get(home(hash, mask));
        bucket.map_or(core::ptr::null(), |bucket| {
            core::ptr::from_ref(bucket).cast()
        })
    }

    /// # Errors
    /// The key is in: its value.
    pub fn insert(&mut self, key: &[u8; N], value: u32) -> Result<(), u32> {
        debug_assert!(value <= MAX_VALUE);
        if let Some(present) = self.look_up(key) {
            return Err(present);
        }
        if self.len >= self.limit() {
            self.grow();
        }
        self.place(Slot { key: *key, value });
        self.len = self.len.saturating_add(1);
        Ok(())
    }

    pub fn remove(&mut self, key: &[u8; N]) -> Option<u32> {
        let (bucket, way) = self.find(self.hash(key), key)?;
        let removed = self.buckets.get(bucket)?.0.get(way)?.value;
        self.len = self.len.saturating_sub(1);
        self.close_gap(bucket, way);
        Some(removed)
    }

    /// Room for `additional` more without growing, which costs time in proportion to what is in.
    pub fn reserve(&mut self, additional: usize) {
        let needed = self.len.saturating_add(additional);
        while self.limit() < needed {
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

    const fn slots(&self) -> usize {
        self.buckets.len().saturating_mul(WAYS)
    }

    /// The most flows that may be in: three eighths, so that hardly any is not at home. One that is
    /// not costs a branch that nobody foresaw, and a wait for memory.
    const fn limit(&self) -> usize {
        self.slots().saturating_sub(self.buckets.len()) / 2
    }

    /// The bucket and the slot in it that the key is in.
    #[inline]
    fn find(&self, hash: u64, key: &[u8; N]) -> Option<(usize, usize)> {
        let mask = self.buckets.len().checked_sub(1)?;
        let mut index = home(hash, mask);
        loop {
            let bucket = self.buckets.get(index)?;
            if let Some(way) = bucket.find(key) {
                return Some((index, way));
            }
            if bucket.room().is_some() {
                return None;
            }
            index = index.wrapping_add(1) & mask;
        }
    }

    /// Puts a flow that is not in where it belongs.
    fn place(&mut self, slot: Slot<N>) {
        let mask = self.buckets.len().wrapping_sub(1);
        let mut index = home(self.hash(&slot.key), mask);
        while let Some(bucket) = self.buckets.get_mut(index) {
            if let Some(way) = bucket.room() {
                bucket.put(way, slot);
                return;
            }
            index = index.wrapping_add(1) & mask;
        }
    }

    /// Empties a slot. Flows that found its bucket full are behind it: one of them moves up, and
    /// leaves a gap itself.
    fn close_gap(&mut self, mut gap: usize, mut way: usize) {
        let mask = self.buckets.len().wrapping_sub(1);
        let mut index = gap;
        let mut is_full = true;
        while is_full {
            let Some(bucket) = self.buckets.get(index) else {
                return;
            };
            is_full = bucket.room().is_none();
            // Of the gap's own bucket nobody need move.
            let from_gap = index.wrapping_sub(gap) & mask;
            let passed_gap = |slot: &Slot<N>| {
                let from_home = index.wrapping_sub(home(self.hash(&slot.key), mask)) & mask;
                slot.value != EMPTY && from_home >= from_gap
            };
            if index != gap
                && let Some(next) = bucket.0.iter().position(passed_gap)
                && let Some(&moved) = bucket.0.get(next)
            {
                self.put(gap, way, moved);
                (gap, way) = (index, next);
            }
            index = index.wrapping_add(1) & mask;
        }
        self.put(gap, way, Slot::EMPTY);
    }

    fn grow(&mut self) {
        let count = self.buckets.len().saturating_mul(2).max(MIN_BUCKETS);
        let old = core::mem::replace(&mut self.buckets, vec![Bucket::EMPTY; count]);
        for slot in old.iter().flat_map(|bucket| bucket.0) {
            if slot.value != EMPTY {
                self.place(slot);
            }
        }
    }

    fn put(&mut self, index: usize, way: usize, slot: Slot<N>) {
        if let Some(bucket) = self.buckets.get_mut(index) {
            bucket.put(way, slot);
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

impl<const N: usize> Bucket<N> {
    const EMPTY: Self = Self([Slot::EMPTY; WAYS]);

    /// Compares all, without a branch.
    #[inline]
    fn find(&self, key: &[u8; N]) -> Option<usize> {
        let mut found = WAYS;
        for (way, slot) in self.0.iter().enumerate() {
            let is_it = (slot.key == *key) & (slot.value != EMPTY);
            found = if is_it { way } else { found };
        }
        (found < WAYS).then_some(found)
    }

    /// An empty slot.
    #[inline]
    fn room(&self) -> Option<usize> {
        self.0.iter().position(|slot| slot.value == EMPTY)
    }

    fn put(&mut self, way: usize, slot: Slot<N>) {
        if let Some(place) = self.0.get_mut(way) {
            *place = slot;
        }
    }
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

    impl<const N: usize> ConnectionTable<N> {
        fn check(&self) {
            let slots = self.buckets.iter().flat_map(|bucket| &bucket.0);
            let in_use = slots.filter(|slot| slot.value != EMPTY);
            assert_eq!(in_use.clone().count(), self.len);
            for slot in in_use {
                assert_eq!(self.look_up(&slot.key), Some(slot.value));
            }
            assert!(self.len <= self.slots() / 8 * 3);
        }
    }

    #[test]
    fn an_empty_table_has_no_memory_and_finds_nothing() {
        let mut table = ConnectionTable::<12>::new([1; 16]);
        assert_eq!(table.buckets.capacity(), 0);
        assert_eq!(table.look_up(&[0; 12]), None);
        assert_eq!(table.remove(&[0; 12]), None);
        assert!(table.is_empty());
    }

    #[test]
    fn reserved_room_is_not_grown() {
        let mut table = ConnectionTable::<12>::new([1; 16]);
        table.reserve(1000);
        let slots = table.slots();
        for value in 0..1000_u32 {
            let mut key = [0; 12];
            key[..4].copy_from_slice(&value.to_be_bytes());
            assert_eq!(table.insert(&key, value), Ok(()));
        }
        assert_eq!(table.slots(), slots);
        table.check();
    }

    /// The key decides where flows collide.
    #[test]
    fn tables_with_different_keys_differ() {
        let (one, other) = (
            ConnectionTable::<12>::new([1; 16]),
            ConnectionTable::<12>::new([2; 16]),
        );
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
            let mut table = ConnectionTable::<12>::new(secret);
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
