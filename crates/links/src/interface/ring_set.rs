//! Some of an interface's rings, and one value for each of them.

/// Rings that an interface has at most: more queues than that share them.
pub const RINGS_MAX: u32 = 64;

/// Some of the receiving rings of an interface, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSet(u64);

impl RingSet {
    pub const NONE: Self = Self(0);

    /// The ring of this number, below [`RINGS_MAX`].
    pub const fn of(ring: usize) -> Self {
        Self(1 << (ring as u32 % RINGS_MAX))
    }

    pub const fn bits(self) -> u64 {
        self.0
    }

    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub const fn contains(self, ring: usize) -> bool {
        self.0 & Self::of(ring).0 != 0
    }

    /// Their numbers, the lowest first.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let ring = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(ring)
        })
    }
}

/// One for each ring, at least one. The first lies where its owner does: most have no other.
#[derive(Debug)]
pub(super) struct PerRing<T> {
    pub(super) first: T,
    others: Box<[T]>,
}

impl<T> PerRing<T> {
    /// `None`: there is not even one.
    pub(super) fn new(values: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut values = values.into_iter();
        Some(Self {
            first: values.next()?,
            others: values.collect(),
        })
    }

    /// Whether there is no other than the first.
    #[inline]
    pub(super) fn is_one(&self) -> bool {
        self.others.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        1 + self.others.len()
    }

    /// That of a ring; a number that none has is the first one's.
    #[inline]
    pub(super) fn get(&self, ring: usize) -> &T {
        match ring.checked_sub(1) {
            None => &self.first,
            Some(place) => self.others.get(place).unwrap_or(&self.first),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_into_them() {
        let set = RingSet::of(0).with(RingSet::of(63)).with(RingSet::of(5));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 5, 63]);
        assert!(set.contains(5) && !set.contains(4));
        assert_eq!(RingSet::from_bits(set.bits()), set);
        assert_eq!(RingSet::NONE.iter().count(), 0);
    }

    #[test]
    fn each_ring_has_its_value() {
        let of = |values: &[u32]| PerRing::new(values.to_vec());
        assert!(of(&[]).is_none());
        let one = of(&[1]).unwrap();
        assert!(one.is_one() && one.count() == 1 && *one.get(0) == 1);
        let three = of(&[1, 2, 3]).unwrap();
        assert!(!three.is_one() && three.count() == 3);
        assert_eq!([0, 1, 2, 3].map(|ring| *three.get(ring)), [1, 2, 3, 1]);
        assert_eq!(three.iter().sum::<u32>(), 6);
    }
}
