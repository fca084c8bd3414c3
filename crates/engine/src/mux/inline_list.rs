//! A list that is mostly short, and needs no memory of its own then.

/// Entries without memory of their own.
const FEW: usize = 4;

/// At least one entry, in their order.
#[derive(Debug)]
pub(super) struct InlineList<T> {
    first: [T; FEW],
    /// How many of these there are.
    count: usize,
    others: Vec<T>,
}

impl<T: Copy> InlineList<T> {
    /// `None`: there are none.
    pub(super) fn of(mut entries: impl Iterator<Item = T>) -> Option<Self> {
        let mut few = Self {
            first: [entries.next()?; FEW],
            count: 1,
            others: Vec::new(),
        };
        for entry in entries {
            match few.first.get_mut(few.count) {
                Some(place) => {
                    *place = entry;
                    few.count += 1;
                }
                None => few.others.push(entry),
            }
        }
        Some(few)
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().take(self.count).chain(&self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_kept_in_their_order() {
        assert!(InlineList::of(std::iter::empty::<u8>()).is_none());
        for count in [1, FEW - 1, FEW, FEW + 1, 100] {
            let few = InlineList::of(0..count).unwrap();
            assert!(few.iter().copied().eq(0..count));
        }
    }
}
