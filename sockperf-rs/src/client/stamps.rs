//! When messages were sent: written by the thread that sends, read by the one that receives.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The latest messages that want an answer. Older ones are overwritten, so that the memory does not
/// grow with the test.
#[derive(Debug)]
pub struct Stamps {
    slots: Vec<Slot>,
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Slot {
    tx_nsec: AtomicU64,
    lag_nsec: AtomicU64,
}

/// How far back stamps reach: half a second at a million replies a second.
pub const STAMPS_LEN: usize = 1 << 19;

impl Stamps {
    /// None yet; room for `len`, a power of two.
    pub fn new(len: usize) -> Self {
        Self {
            slots: (0..len.next_power_of_two())
                .map(|_| Slot::default())
                .collect(),
            count: AtomicU64::new(0),
        }
    }

    /// Notes the next message. Called before it is sent, so that its reply finds it. One thread
    /// only.
    #[inline]
    pub fn publish(&self, tx_nsec: u64, lag_nsec: u64) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(slot) = self.slot(count) {
            // A reader that sees the new stamp must see that the count is at least this high.
            fence(Ordering::Release);
            slot.tx_nsec.store(tx_nsec, Ordering::Relaxed);
            slot.lag_nsec.store(lag_nsec, Ordering::Relaxed);
        }
        self.count.store(count + 1, Ordering::Release);
    }

    /// Takes the last message back: it did not leave. By the thread that published it.
    pub fn retract(&self) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.saturating_sub(1), Ordering::Release);
    }

    /// Messages so far.
    #[inline]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// When the message at `position` was sent and how late that was; `None` if it has been
    /// overwritten or not been sent.
    #[inline]
    pub fn get(&self, position: u64) -> Option<(u64, u64)> {
        if position >= self.count() {
            return None;
        }
        let slot = self.slot(position)?;
        let stamps = (
            slot.tx_nsec.load(Ordering::Relaxed),
            slot.lag_nsec.load(Ordering::Relaxed),
        );
        // The slot is written again when the count has reached `position` + len.
        fence(Ordering::Acquire);
        let age = self.count.load(Ordering::Relaxed).saturating_sub(position);
        (age < self.slots.len() as u64).then_some(stamps)
    }

    #[inline]
    fn slot(&self, position: u64) -> Option<&Slot> {
        let mask = self.slots.len() as u64 - 1;
        self.slots.get(usize::try_from(position & mask).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_stamps_are_gone() {
        let stamps = Stamps::new(4);
        assert_eq!(stamps.get(0), None);
        for n in 0..6 {
            stamps.publish(100 + n, n);
        }
        let found: Vec<_> = (0..8).map(|position| stamps.get(position)).collect();
        assert_eq!(found[..3], [None; 3]);
        assert_eq!(
            found[3..6],
            [Some((103, 3)), Some((104, 4)), Some((105, 5))]
        );
        assert_eq!(found[6..], [None; 2]);
        stamps.retract();
        assert_eq!((stamps.count(), stamps.get(5)), (5, None));
        stamps.publish(200, 0);
        assert_eq!(stamps.get(5), Some((200, 0)));
    }

    #[test]
    fn a_reader_sees_whole_stamps_or_none() {
        let stamps = Stamps::new(8);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..100_000).for_each(|n| stamps.publish(n, n)));
            let mut next = 0;
            while next < 100_000 {
                let count = stamps.count();
                for position in next..count {
                    if let Some(found) = stamps.get(position) {
                        assert_eq!(found, (position, position));
                    }
                }
                next = count;
            }
        });
    }
}
