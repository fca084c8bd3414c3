//! Whether packets come that nobody answers.
//!
//! A peer that waits for answers has no more under way than it may. One that does not, such as a feed, goes on while the program
//! does not run, and all that comes meanwhile needs an empty frame.

/// Frames between two looks: two milliseconds of a fast feed.
const WINDOW: u32 = 256;
/// An answer to so many frames makes a conversation: an acknowledgement stands for a batch of segments.
const FRAMES_PER_ANSWER: u64 = 32;

/// What an interface has received and sent. Under the receiving ring's lock.
#[derive(Debug, Default)]
pub(super) struct OneWay {
    received: u32,
    sent_before: u64,
}

impl OneWay {
    /// Counts frames. Whether it is time for [`Self::is_one_way`].
    #[inline]
    pub(super) fn received(&mut self, count: usize) -> bool {
        self.received = self.received.saturating_add(count as u32);
        self.received >= WINDOW
    }

    /// Whether what came since the last look was hardly answered. `sent`: frames that were sent so far.
    pub(super) fn is_one_way(&mut self, sent: u64) -> bool {
        let answers = sent.wrapping_sub(self.sent_before);
        let is_one_way = answers.saturating_mul(FRAMES_PER_ANSWER) < u64::from(self.received);
        (self.received, self.sent_before) = (0, sent);
        is_one_way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_not_one_way() {
        let mut one_way = OneWay::default();
        let looks: Vec<bool> = (1..=1024)
            .filter(|_| one_way.received(1))
            .map(|sent| one_way.is_one_way(sent))
            .collect();
        assert_eq!(looks, [false; 4]);
        assert!(one_way.received(5000));
        assert!(!one_way.is_one_way(1024 + 157));
    }

    #[test]
    fn what_is_hardly_answered_is() {
        let mut one_way = OneWay::default();
        assert!(!one_way.received(255) && one_way.received(1));
        assert!(one_way.is_one_way(0));
        assert!(one_way.received(300));
        assert!(one_way.is_one_way(9));
    }
}
