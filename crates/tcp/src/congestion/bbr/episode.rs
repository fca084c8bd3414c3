//! Episodes of loss recovery.

use super::state::State;
use crate::{Instant, SeqNumber};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// The round trip in which recovery began that goes on.
    pub(super) recovering_since: Option<u32>,
    /// Ranges of the stream that were lost in this round trip.
    pub(super) ranges_in_round: u32,
    pub(super) last_end: Option<SeqNumber>,
    /// The state for undoing was saved, for recovery that is about to begin.
    pub(super) is_saved: bool,
}

/// What a spurious recovery has to give back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// `BBR.undo_state`: losses ended it.
    pub(super) state: Option<State>,
    pub(super) bw_shortterm: u64,
    pub(super) inflight_shortterm: u32,
    pub(super) inflight_longterm: u32,
}

/// A lost segment, as it was sent last.
#[derive(Clone, Copy, Debug)]
pub(in crate::congestion) struct LostSegment {
    pub(in crate::congestion) seq: SeqNumber,
    pub(in crate::congestion) len: u32,
    pub(in crate::congestion) sent_at: Instant,
}
