//! Whether an episode of retransmission was needed: by echoed timestamps (Eifel, RFC 3522) and by
//! duplicates that the peer reports (RFC 3708).
//!
//! Evidence takes a round trip, and an episode that begins meanwhile may be as unfounded as the one
//! before: while a network begins to reorder, one follows on the other. So the last two are kept.
//! What they sent again does not overlap.

use crate::SeqNumber;
use crate::timestamp::is_before;

/// The current or the last episode, and the one before if it is in doubt.
#[derive(Clone, Debug, Default)]
pub(super) struct Undo {
    episodes: Option<Box<Episodes>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Episodes {
    last: Option<Episode>,
    earlier: Option<Earlier>,
}

/// Why an episode began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Timeout,
    /// Something overtook segments of a network that had been seen to keep the order: RACK waited
    /// for nothing.
    Overtaken,
    /// Segments were later than the reordering window.
    Late,
}

/// The retransmissions of an episode.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// `snd_una` at its beginning.
    marker: SeqNumber,
    /// Retransmissions that were not reported as duplicates.
    not_duplicate: u32,
    has_retransmitted: bool,
    /// Of the first retransmission, as it was sent.
    first_timestamp: Option<u32>,
    cause: Cause,
    /// It is not known to have been unfounded.
    is_in_doubt: bool,
}

/// An episode before another.
#[derive(Clone, Copy, Debug)]
struct Earlier {
    marker: SeqNumber,
    /// `snd_una` at the beginning of the next.
    end: SeqNumber,
    not_duplicate: u32,
    cause: Cause,
}

impl Undo {
    /// An episode begins. Returns whether the one before stays in doubt.
    pub(super) fn begin(&mut self, snd_una: SeqNumber, cause: Cause) -> bool {
        let episodes = self.episodes.get_or_insert_default();
        if let Some(last) = episodes.last.filter(|last| last.is_in_doubt) {
            episodes.earlier = last.has_retransmitted.then_some(Earlier {
                marker: last.marker,
                end: snd_una,
                not_duplicate: last.not_duplicate,
                cause: last.cause,
            });
        }
        episodes.last = Some(Episode {
            marker: snd_una,
            not_duplicate: 0,
            has_retransmitted: false,
            first_timestamp: None,
            cause,
            is_in_doubt: true,
        });
        episodes.earlier.is_some()
    }

    pub(super) fn on_retransmitted(&mut self, timestamp: Option<u32>) {
        let episodes = self.episodes.as_deref_mut();
        if let Some(last) = episodes.and_then(|episodes| episodes.last.as_mut()) {
            last.not_duplicate = last.not_duplicate.saturating_add(1);
            last.has_retransmitted = true;
            last.first_timestamp = last.first_timestamp.or(timestamp);
        }
    }

    /// The peer got the octets before `end` twice, `segments` of them. Returns why the episode
    /// began that sent them again.
    pub(super) fn on_dsack(&mut self, end: SeqNumber, segments: u32) -> Option<Cause> {
        let episodes = self.episodes.as_mut()?;
        if let Some(last) = episodes.last.as_mut().filter(|last| end > last.marker) {
            last.not_duplicate = last.not_duplicate.saturating_sub(segments);
            return last.has_retransmitted.then_some(last.cause);
        }
        let earlier = episodes.earlier.as_mut();
        let earlier = earlier.filter(|it| end > it.marker && end <= it.end)?;
        earlier.not_duplicate = earlier.not_duplicate.saturating_sub(segments);
        Some(earlier.cause)
    }

    /// RFC 3708 §2: all that the last episode has sent again arrived twice.
    pub(super) fn is_all_duplicate(&self) -> bool {
        self.doubted()
            .is_some_and(|last| last.has_retransmitted && last.not_duplicate == 0)
    }

    /// All that the episode before the last has sent again arrived twice: tells so once.
    pub(super) fn take_earlier_duplicate(&mut self) -> bool {
        let Some(episodes) = &mut self.episodes else {
            return false;
        };
        let is_duplicate = |earlier: &mut Earlier| earlier.not_duplicate == 0;
        episodes.earlier.take_if(is_duplicate).is_some()
    }

    /// RFC 3522 §3.2 step 5: what is acknowledged was sent before the first retransmission.
    #[inline]
    pub(super) fn is_original_acknowledged(&self, echoed: Option<u32>) -> bool {
        let first = self.doubted().and_then(|last| last.first_timestamp);
        first
            .zip(echoed)
            .is_some_and(|(first, echoed)| is_before(echoed, first))
    }

    /// The last episode is known not to have been needed. Returns why it began. The one before
    /// stays in doubt.
    pub(super) fn end_last(&mut self) -> Option<Cause> {
        let last = self.episodes.as_mut()?.last.as_mut()?;
        last.is_in_doubt = false;
        Some(last.cause)
    }

    /// There is nothing to undo.
    pub(super) fn end(&mut self) {
        if let Some(episodes) = &mut self.episodes {
            **episodes = Episodes::default();
        }
    }

    /// The last episode may turn out not to have been needed.
    pub(super) fn is_last_in_doubt(&self) -> bool {
        self.doubted().is_some()
    }

    #[inline]
    fn doubted(&self) -> Option<&Episode> {
        let last = self.episodes.as_deref()?.last.as_ref();
        last.filter(|last| last.is_in_doubt)
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
        assert!(!undo.begin(SeqNumber(u32::MAX), Cause::Late));
        assert!(!undo.is_all_duplicate(), "nothing was retransmitted");
        undo.on_retransmitted(None);
        undo.on_retransmitted(None);
        assert_eq!(undo.on_dsack(SeqNumber(u32::MAX), 1), None, "another's");
        assert_eq!(undo.on_dsack(SeqNumber(1000), 1), Some(Cause::Late));
        assert!(!undo.is_all_duplicate());
        undo.on_dsack(SeqNumber(2000), 1);
        assert!(undo.is_all_duplicate());
        undo.end_last();
        assert!(!undo.is_all_duplicate());
        assert_eq!(undo.on_dsack(SeqNumber(2000), 1), Some(Cause::Late));
        undo.end();
        assert_eq!(undo.on_dsack(SeqNumber(2000), 1), None, "nobody's");
    }

    /// The first is from 0 to 3000, the second from there on.
    fn two_episodes() -> Undo {
        let mut undo = Undo::default();
        assert!(!undo.begin(SeqNumber(0), Cause::Timeout));
        undo.on_retransmitted(Some(10));
        undo.on_retransmitted(Some(10));
        assert!(
            undo.begin(SeqNumber(3000), Cause::Late),
            "the first is in doubt"
        );
        undo.on_retransmitted(Some(20));
        undo
    }

    #[test]
    fn the_episode_before_is_judged_by_its_own_duplicates() {
        let mut undo = two_episodes();
        assert_eq!(undo.on_dsack(SeqNumber(1000), 1), Some(Cause::Timeout));
        assert!(!undo.take_earlier_duplicate());
        undo.on_dsack(SeqNumber(3000), 1);
        assert!(undo.take_earlier_duplicate());
        assert!(!undo.take_earlier_duplicate(), "once");
        assert!(!undo.is_all_duplicate());
        undo.on_dsack(SeqNumber(4000), 1);
        assert!(undo.is_all_duplicate());
    }

    #[test]
    fn the_episode_before_stays_in_doubt_when_the_last_is_undone() {
        let mut undo = two_episodes();
        undo.on_dsack(SeqNumber(4000), 1);
        assert!(undo.is_all_duplicate());
        assert_eq!(undo.end_last(), Some(Cause::Late));
        assert!(!undo.is_original_acknowledged(Some(0)));
        undo.on_dsack(SeqNumber(4000), 1);
        undo.on_dsack(SeqNumber(2000), 2);
        assert!(undo.take_earlier_duplicate());
    }

    #[test]
    fn no_more_than_two_episodes_are_in_doubt() {
        let mut undo = two_episodes();
        assert!(undo.begin(SeqNumber(9000), Cause::Late));
        undo.on_dsack(SeqNumber(1000), 2);
        assert!(!undo.take_earlier_duplicate());
        undo.on_dsack(SeqNumber(4000), 1);
        assert!(undo.take_earlier_duplicate());
        undo.end();
        assert!(!undo.begin(SeqNumber(9000), Cause::Late));
        assert!(
            !undo.begin(SeqNumber(9000), Cause::Late),
            "nothing was sent again"
        );
    }

    /// RFC 3522 §3.2
    #[test]
    fn an_older_timestamp_tells_the_original_from_the_retransmission() {
        let mut undo = Undo::default();
        undo.begin(SeqNumber(0), Cause::Late);
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
