//! Sequence numbers (RFC 9293 §3.4).

use core::cmp::Ordering;
use core::ops::{Add, AddAssign, Sub};

/// A sequence number. Arithmetic is modulo 2^32; the order is that of two numbers less than 2^31
/// apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNumber(pub u32);

impl SeqNumber {
    /// Octets from `earlier` to this one; negative if that is the later one.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// The later of the two.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if self >= other { self } else { other }
    }

    /// The earlier of the two.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        if self <= other { self } else { other }
    }
}

impl PartialOrd for SeqNumber {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.distance_from(*other).cmp(&0))
    }

    // Spelt out, each is one subtraction and one jump.
    #[inline]
    fn lt(&self, other: &Self) -> bool {
        self.distance_from(*other) < 0
    }

    #[inline]
    fn le(&self, other: &Self) -> bool {
        self.distance_from(*other) <= 0
    }

    #[inline]
    fn gt(&self, other: &Self) -> bool {
        self.distance_from(*other) > 0
    }

    #[inline]
    fn ge(&self, other: &Self) -> bool {
        self.distance_from(*other) >= 0
    }
}

impl Add<u32> for SeqNumber {
    type Output = Self;

    fn add(self, octets: u32) -> Self {
        Self(self.0.wrapping_add(octets))
    }
}

impl AddAssign<u32> for SeqNumber {
    fn add_assign(&mut self, octets: u32) {
        self.0 = self.0.wrapping_add(octets);
    }
}

impl Sub<u32> for SeqNumber {
    type Output = Self;

    fn sub(self, octets: u32) -> Self {
        Self(self.0.wrapping_sub(octets))
    }
}

impl Sub for SeqNumber {
    type Output = u32;

    /// Octets from `earlier` to this one, which must not be the earlier of the two.
    fn sub(self, earlier: Self) -> u32 {
        debug_assert!(self >= earlier, "{self:?} is before {earlier:?}");
        self.0.wrapping_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::SeqNumber;

    #[test]
    fn order_holds_across_the_wrap() {
        let before = SeqNumber(u32::MAX - 1);
        let after = before + 5;
        assert!(before < after);
        assert_eq!(after - before, 5);
        assert_eq!(before.distance_from(after), -5);
        assert_eq!(before.max(after), after);
        assert_eq!(before.min(after), before);
    }
}
