//! Data that a retransmission has overtaken on its way, and PAWS (RFC 7323 §5.3).
//!
//! What fills a gap has the timestamp of a retransmission, which becomes `TS.Recent`. Data behind
//! it that was sent earlier and comes later is old by that measure; to drop it makes losses of what
//! was only reordered. With 30 % of all packets late by a fifth of a round trip of 100 ms that
//! costs an eighth of a link of 10 Mbit/s (`tests/goodput.txt`).

use crate::timestamp::is_before;

/// What the timestamps of such data are measured by.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overtaken {
    /// `TS.Recent` when a gap opened.
    timestamp: u32,
    /// It counts until so many octets were received in all.
    until: u64,
}

impl Overtaken {
    /// Data came behind a gap; `recent` is `TS.Recent`, `received` the octets before the gap since
    /// the beginning, `window` those that the peer may send behind them.
    pub(crate) fn on_gap(&mut self, recent: u32, received: u64, window: u32) {
        if received >= self.until {
            self.timestamp = recent;
            self.until = received.saturating_add(window.min(MAX_SPAN).into());
        }
    }

    /// Whether data that comes next or later in the stream was sent after what came before the gap.
    ///
    /// It is not from another turn of the sequence numbers either, however fast the link is: all
    /// that was sent after that lies in two windows, this one and what the peer may have sent
    /// beyond it, which have no more than 2^30 octets each. To someone who guesses, the timestamps
    /// between are few beside the half of all that is newer than `TS.Recent`.
    pub(crate) fn admits(&self, timestamp: u32, received: u64) -> bool {
        received < self.until && !is_before(timestamp, self.timestamp)
    }
}

/// The largest window (RFC 7323 §2.3): two of them are half of the sequence numbers, by which PAWS
/// would be needed again.
const MAX_SPAN: u32 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_for_less_than_half_of_the_sequence_numbers() {
        let mut overtaken = Overtaken::default();
        overtaken.on_gap(10, 5, u32::MAX);
        assert!(overtaken.admits(10, 5 + (1 << 30) - 1));
        assert!(!overtaken.admits(10, 5 + (1 << 30)));
    }

    #[test]
    fn what_was_sent_before_the_gap_is_old() {
        let mut overtaken = Overtaken::default();
        assert!(!overtaken.admits(0, 0), "there was no gap");
        overtaken.on_gap(u32::MAX, 1000, 500);
        assert!(!overtaken.admits(u32::MAX - 1, 1000));
        assert!(overtaken.admits(u32::MAX, 1000));
        assert!(overtaken.admits(3, 1499));
    }

    #[test]
    fn a_window_later_it_is_forgotten() {
        let mut overtaken = Overtaken::default();
        overtaken.on_gap(10, 1000, 500);
        // Another gap while the first one counts.
        overtaken.on_gap(20, 1400, 500);
        assert!(overtaken.admits(10, 1499));
        assert!(!overtaken.admits(10, 1500));
        overtaken.on_gap(20, 1500, 500);
        assert!(!overtaken.admits(10, 1500));
        assert!(overtaken.admits(20, 1500));
    }
}
