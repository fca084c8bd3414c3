//! Whether packets come that nobody answers.
//!
//! A peer that waits for answers has no more under way than it may. One that does not, such as a
//! feed, goes on while the program does not run, and all that comes meanwhile needs an empty frame.

/// Frames between two looks: two milliseconds of a fast feed.
const WINDOW: u32 = 256;
/// An answer to so many frames makes a conversation: an acknowledgement stands for a batch of
/// segments.
const FRAMES_PER_ANSWER: u64 = 32;

/// What an interface has received and sent. Under the receiving ring's lock.
#[derive(Debug, Default)]
pub(super) struct StreamDetector {
    received: u32,
    sent_before: u64,
    since_nsec: u64,
}

impl StreamDetector {
    /// Counts frames. Whether it is time for [`Self::look`].
    #[inline]
    pub(super) fn received(&mut self, count: usize) -> bool {
        self.received = self.received.saturating_add(count as u32);
        self.received >= WINDOW
    }

    /// Nanoseconds from frame to frame, at least one, if those that came since the last look were
    /// hardly answered. `sent`: frames that were sent so far.
    pub(super) fn look(&mut self, sent: u64, now_nsec: u64) -> Option<u64> {
        let received = u64::from(self.received);
        let answers = sent.wrapping_sub(self.sent_before);
        let gap_nsec = now_nsec.saturating_sub(self.since_nsec) / received.max(1);
        *self = Self {
            received: 0,
            sent_before: sent,
            since_nsec: now_nsec,
        };
        (answers.saturating_mul(FRAMES_PER_ANSWER) < received).then_some(gap_nsec.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_not_one_way() {
        let mut stream_detector = StreamDetector::default();
        let look = |sent| {
            stream_detector
                .received(1)
                .then(|| stream_detector.look(sent, 0))
        };
        let looks: Vec<_> = (1..=1024).filter_map(look).collect();
        assert_eq!(looks, [None; 4]);
        assert!(stream_detector.received(5000));
        assert_eq!(stream_detector.look(1024 + 157, 0), None);
    }

    #[test]
    fn what_is_hardly_answered_is() {
        let mut stream_detector = StreamDetector::default();
        assert!(!stream_detector.received(255) && stream_detector.received(1));
        assert_eq!(stream_detector.look(0, 256_000), Some(1_000));
        assert!(stream_detector.received(300));
        assert_eq!(stream_detector.look(9, 256_001), Some(1));
    }
}
