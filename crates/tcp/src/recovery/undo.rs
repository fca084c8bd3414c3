//! Whether an episode of retransmission was needed: by echoed timestamps (Eifel, RFC 3522) and by duplicates that the peer
//! reports (RFC 3708).

use crate::SeqNumber;

/// The retransmissions of the current or the last episode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// `snd_una` at the beginning of the episode.
    marker: SeqNumber,
    /// Retransmissions that were not reported as duplicates.
    not_duplicate: u32,
    /// Of the first retransmission, as it was sent.
    first_timestamp: u32,
    /// Until the episode is known to have been needed or not.
    is_open: bool,
    has_retransmitted: bool,
    has_timestamp: bool,
}

impl Undo {
    pub(super) fn begin(&mut self, snd_una: SeqNumber) {
        *self = Self {
            marker: snd_una,
            is_open: true,
            ..Self::default()
        };
    }

    pub(super) fn on_retransmitted(&mut self, timestamp: Option<u32>) {
        if self.is_open {
            self.not_duplicate = self.not_duplicate.saturating_add(1);
            self.has_retransmitted = true;
            if let (false, Some(timestamp)) = (self.has_timestamp, timestamp) {
                self.first_timestamp = timestamp;
                self.has_timestamp = true;
            }
        }
    }

    /// The peer got the octets before `end` twice, `segments` of them.
    pub(super) fn on_dsack(&mut self, end: SeqNumber, segments: u32) {
        if self.is_open && end > self.marker {
            self.not_duplicate = self.not_duplicate.saturating_sub(segments);
        }
    }

    /// RFC 3708 §2: all that was retransmitted arrived twice.
    pub(super) const fn is_all_duplicate(&self) -> bool {
        self.is_open && self.has_retransmitted && self.not_duplicate == 0
    }

    /// RFC 3522 §3.2 step 5: what is acknowledged was sent before the first retransmission.
    pub(super) fn is_original_acknowledged(&self, echoed: Option<u32>) -> bool {
        let is_earlier = |echoed: u32| echoed.wrapping_sub(self.first_timestamp).cast_signed() < 0;
        self.is_open && self.has_timestamp && echoed.is_some_and(is_earlier)
    }

    pub(super) fn end(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_of_every_retransmission_show_that_none_was_needed() {
        let mut undo = Undo::default();
        undo.on_retransmitted(None);
        assert!(!undo.is_all_duplicate());
        undo.begin(SeqNumber(u32::MAX));
        assert!(!undo.is_all_duplicate(), "nothing was retransmitted");
        undo.on_retransmitted(None);
        undo.on_retransmitted(None);
        undo.on_dsack(SeqNumber(u32::MAX), 1);
        undo.on_dsack(SeqNumber(1000), 1);
        assert!(!undo.is_all_duplicate());
        undo.on_dsack(SeqNumber(2000), 1);
        assert!(undo.is_all_duplicate());
        undo.end();
        assert!(!undo.is_all_duplicate());
    }

    /// RFC 3522 §3.2
    #[test]
    fn an_older_timestamp_tells_the_original_from_the_retransmission() {
        let mut undo = Undo::default();
        undo.begin(SeqNumber(0));
        assert!(!undo.is_original_acknowledged(Some(0)));
        undo.on_retransmitted(Some(2));
        undo.on_retransmitted(Some(50));
        assert!(undo.is_original_acknowledged(Some(1)));
        assert!(undo.is_original_acknowledged(Some(u32::MAX)));
        assert!(!undo.is_original_acknowledged(Some(2)));
        assert!(!undo.is_original_acknowledged(Some(49)));
        assert!(!undo.is_original_acknowledged(None));
    }
}
