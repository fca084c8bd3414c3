//! How an interface's frames are shared out among the processes that have it.

use super::area::Shape;
use super::send::Share;

/// Frames that are in no RX ring, however late all processes are.
const RESERVE: u32 = 2048;
const RX_MIN: u32 = 32;
const RX_MAX: u32 = 2048;
const TX_MIN: u32 = 32;
const TX_MAX: u32 = 1024;

/// Each process gets such a part of what is left, and later ones no less than the least.
const PART: u32 = 16;

/// What is left.
#[derive(Debug)]
pub(super) struct Budget {
    queues: u32,
    /// Frames that may be in further RX rings.
    rx_left: u32,
    /// Frames to send by that are nobody's, by their first number.
    tx_left: Vec<Share>,
}

impl Budget {
    pub(super) fn new(shape: Shape, queues: u32) -> Self {
        Self {
            queues,
            rx_left: shape.rx_frames.saturating_sub(RESERVE),
            tx_left: vec![Share {
                first: 0,
                count: shape.tx_frames,
            }],
        }
    }

    /// Entries of each RX ring of another process, and the frames that it sends by, as many for
    /// each queue. `None`: there is not enough left.
    pub(super) fn take(&mut self) -> Option<(u32, Share)> {
        let rx_left = self.rx_left / self.queues;
        let entries = floor(rx_left / PART).clamp(RX_MIN, RX_MAX);
        let tx_left: u32 = self.tx_left.iter().map(|it| it.count).sum();
        let sent = floor(tx_left / self.queues / PART).clamp(TX_MIN, TX_MAX) * self.queues;
        let largest = self.tx_left.iter_mut().max_by_key(|it| it.count)?;
        if entries > rx_left || largest.count < TX_MIN * self.queues {
            return None;
        }
        // What is left in one piece.
        let sent = match largest.count {
            count if count >= sent => sent,
            count => floor(count / self.queues) * self.queues,
        };
        let share = Share {
            first: largest.first,
            count: sent,
        };
        (largest.first, largest.count) = (share.first + sent, largest.count - sent);
        self.tx_left.retain(|it| it.count > 0);
        self.rx_left -= entries * self.queues;
        Some((entries, share))
    }

    /// A process's part is free again.
    pub(super) fn give(&mut self, rx_entries: u32, share: Share) {
        self.rx_left += rx_entries * self.queues;
        self.tx_left.push(share);
        self.tx_left.sort_by_key(|it| it.first);
        self.tx_left.dedup_by(|later, earlier| {
            let follows = earlier.first + earlier.count == later.first;
            if follows {
                earlier.count += later.count;
            }
            follows
        });
    }
}

/// The power of two that is not larger.
fn floor(count: u32) -> u32 {
    count.checked_ilog2().map_or(0, |log| 1 << log)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        frame_bytes: 2048,
        rx_frames: 24_576,
        tx_frames: 16_384,
    };

    #[test]
    fn sixty_four_processes_have_room_and_never_more_than_there_is() {
        for queues in [1, 2, 3] {
            let mut budget = Budget::new(SHAPE, queues);
            let taken: Vec<_> = (0..64).map_while(|_| budget.take()).collect();
            assert_eq!(
                taken.len(),
                if queues < 4 { 64 } else { taken.len() },
                "{queues}"
            );
            let rx: u32 = taken.iter().map(|it| it.0 * queues).sum();
            assert!(rx + RESERVE <= SHAPE.rx_frames, "{queues}: {rx}");
            let mut numbers: Vec<_> = taken.iter().flat_map(|it| it.1.numbers()).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert!(numbers.len() == count && count <= SHAPE.tx_frames as usize);
            assert!(
                taken
                    .iter()
                    .all(|it| (it.1.count / queues).is_power_of_two())
            );
            for (entries, share) in taken {
                budget.give(entries, share);
            }
            let all = Budget::new(SHAPE, queues);
            assert_eq!((budget.rx_left, budget.tx_left), (all.rx_left, all.tx_left));
        }
    }
}
