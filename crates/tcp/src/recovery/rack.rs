//! RACK: recent acknowledgement (RFC 8985 §6). A segment is lost if one that was sent sufficiently
//! later has arrived.
//!
//! Difference from RFC 8985: §6.2 step 5 sets the timer for the last of the segments that are not
//! due yet. Here it is for the first, so that each is found when it is due. If the network
//! reorders, the timer also allows for reports that the peer holds back ([`Rack::sack_delay`]); an
//! acknowledgement that comes earlier is judged as the RFC has it. Linux's timer waits two
//! milliseconds longer whether it reorders or not (`TCP_TIMEOUT_MIN_US`).

use core::time::Duration;

use crate::rtt::RttEstimator;
use crate::time::Nanos;
use crate::{Instant, SeqNumber};

use super::scoreboard::{Scoreboard, SentSegment, sent_after};

/// Recoveries for which a widened reordering window lasts without duplicates
/// (`RACK.reo_wnd_persist`).
const PERSIST_RECOVERIES: u8 = 16;
/// `tcp_max_reordering`
const MAX_REORDERING: u32 = 300;
/// `tcp_comp_sack_delay_ns`: for so long Linux holds reports back, or for 5 % of a round trip if
/// that is less.
const MAX_SACK_DELAY_NANOS: u64 = 1_000_000;
/// `tcp_comp_sack_slack_ns`: by so much its timer for that may be late.
const SACK_DELAY_SLACK_NANOS: u64 = 100_000;

/// The per-connection variables of RFC 8985 §5.3.
#[derive(Clone, Debug)]
pub(super) struct Rack {
    /// `RACK.xmit_ts` and `RACK.end_seq`: the segment sent last of those that have arrived.
    newest: Option<(Instant, SeqNumber)>,
    /// It has changed since losses were looked for: as in Linux, nothing else makes a segment
    /// overdue beside its timer. What was undone is not deemed lost again at once for the same
    /// reason.
    is_advanced: bool,
    rtt: Nanos,
    /// The highest sequence number that has arrived, if any has.
    fack: SeqNumber,
    has_fack: bool,
    /// Acknowledgements that showed reordering (`RACK.reordering_seen`).
    reorderings: u16,
    /// How far a segment was overtaken, at most.
    reordering_octets: u32,
    reo_wnd: Nanos,
    reo_wnd_mult: u16,
    reo_wnd_persist: u8,
    /// The end of the round trip in which duplicates were reported, while it lasts.
    dsack_round: SeqNumber,
    is_dsack_round: bool,
    dup_threshold: u8,
}

/// What the reordering window depends on (RFC 8985 §6.2 step 4).
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) snd_una: SeqNumber,
    pub(super) snd_nxt: SeqNumber,
    pub(super) has_dsack: bool,
    pub(super) is_leaving_recovery: bool,
    pub(super) is_in_recovery: bool,
    pub(super) segments_sacked: u32,
    pub(super) min_rtt: Option<Duration>,
    pub(super) srtt: Option<Duration>,
}

impl Rack {
    pub(super) fn new(dup_threshold: u8) -> Self {
        Self {
            newest: None,
            is_advanced: false,
            rtt: Nanos::ZERO,
            fack: SeqNumber(0),
            has_fack: false,
            reorderings: 0,
            reordering_octets: 0,
            reo_wnd: Nanos::ZERO,
            reo_wnd_mult: 1,
            reo_wnd_persist: 0,
            dsack_round: SeqNumber(0),
            is_dsack_round: false,
            dup_threshold,
        }
    }

    /// §6.2 steps 1 to 3 for one segment that is newly known to have arrived. `prior_fack` is
    /// [`Self::fack`] from before the acknowledgement: what one acknowledgement reports together
    /// says nothing about order. `is_original`: its timestamp says that it was not a retransmission
    /// that arrived. Returns whether the segment was overtaken by others.
    pub(super) fn on_delivered(
        &mut self,
        segment: &SentSegment,
        prior_fack: Option<SeqNumber>,
        min_rtt: Option<Duration>,
        is_original: bool,
        now: Instant,
    ) -> bool {
        let end = segment.end();
        let mut is_overtaken = false;
        self.fack = self.fack().map_or(end, |fack| fack.max(end));
        self.has_fack = true;
        if !segment.is_retransmitted
            && let Some(fack) = prior_fack
            && end < fack
        {
            is_overtaken = true;
            self.reordering_octets = self.reordering_octets.max(fack - segment.seq);
        }
        let rtt = now - segment.sent_at;
        // Sooner than a round trip after the retransmission, it is the original that has arrived.
        let is_ambiguous = is_original || min_rtt.is_some_and(|least| rtt < least);
        if segment.is_retransmitted && is_ambiguous {
            return false;
        }
        let is_newer = self
            .newest
            .is_none_or(|newest| !sent_after(newest, segment.sent_at, end));
        // As in the RFC's pseudocode and in Linux: of the segment looked at last, which may have
        // been under way for longer.
        self.rtt = rtt.into();
        if is_newer {
            self.newest = Some((segment.sent_at, end));
            self.is_advanced = true;
        }
        is_overtaken
    }

    /// §6.2 step 4
    pub(super) fn update_reo_wnd(&mut self, round: &Round) {
        if round.snd_una >= self.dsack_round {
            self.is_dsack_round = false;
        }
        if !self.is_dsack_round && round.has_dsack {
            // Segments that were deemed lost had arrived: wait longer.
            self.dsack_round = round.snd_nxt;
            self.is_dsack_round = true;
            self.reo_wnd_mult = self.reo_wnd_mult.saturating_add(1);
            self.reo_wnd_persist = PERSIST_RECOVERIES;
        } else if round.is_leaving_recovery {
            self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
            if self.reo_wnd_persist == 0 {
                self.reo_wnd_mult = 1;
            }
        }
        let is_order_trusted = self.is_order_kept()
            && (round.is_in_recovery || round.segments_sacked >= u32::from(self.dup_threshold));
        self.reo_wnd = if is_order_trusted {
            Nanos::ZERO
        } else {
            let quarter = round
                .min_rtt
                .and_then(|least| least.checked_div(4))
                .unwrap_or_default();
            let window = quarter.saturating_mul(u32::from(self.reo_wnd_mult));
            round.srtt.map_or(window, |srtt| window.min(srtt)).into()
        };
    }

    /// §6.2 step 5: tells `lost` of what is lost; returns when to look again if nothing is reported
    /// until then.
    pub(super) fn detect_lost(
        &self,
        scoreboard: &mut Scoreboard,
        rtt: &RttEstimator,
        now: Instant,
        lost: impl FnMut(&SentSegment),
    ) -> Option<Instant> {
        let due = scoreboard.detect_lost(self.newest?, self.timeout(), now, lost)?;
        Some(due + self.sack_delay(rtt.srtt()))
    }

    /// For how long a peer may keep to itself what has arrived. Linux reports the first three
    /// segments behind a gap at once and holds later reports back. While the order of segments is
    /// kept, three are all that is waited for. Where it is not, the reordering window of a short
    /// round trip ends before the report comes: what has arrived would be sent again. But no loss
    /// is to be found more than half a round trip later for it.
    fn sack_delay(&self, srtt: Option<Duration>) -> Duration {
        let Some(srtt) = srtt.filter(|_| !self.is_order_kept()) else {
            return Duration::ZERO;
        };
        let srtt = Nanos::from(srtt).get();
        let delay = (srtt / 20).min(MAX_SACK_DELAY_NANOS);
        Duration::from_nanos(delay.saturating_add(SACK_DELAY_SLACK_NANOS).min(srtt / 2))
    }

    /// How long after its transmission a segment counts as lost if a later one has arrived.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.rtt.get().saturating_add(self.reo_wnd.get()))
    }

    /// Whether an acknowledgement makes it worth while to look for losses; once.
    pub(super) fn take_advanced(&mut self) -> bool {
        core::mem::take(&mut self.is_advanced)
    }

    pub(super) fn fack(&self) -> Option<SeqNumber> {
        self.has_fack.then_some(self.fack)
    }

    /// An acknowledgement showed reordering.
    pub(super) fn note_reordering(&mut self) {
        self.reorderings = self.reorderings.saturating_add(1);
    }

    /// A segment has arrived that was deemed lost only because a later one had arrived: the network
    /// reorders. §6.2 step 3 learns that from segments sent once, since it cannot tell the original
    /// from a retransmission; here a timestamp or a D-SACK has.
    pub(super) const fn on_spurious_loss(&mut self) {
        if self.reorderings == 0 {
            self.reorderings = 1;
        }
    }

    /// No acknowledgement has shown reordering.
    pub(super) const fn is_order_kept(&self) -> bool {
        self.reorderings == 0
    }

    /// Acknowledgements that showed reordering.
    pub(super) fn reorderings(&self) -> u32 {
        u32::from(self.reorderings)
    }

    /// The network reorders more than the duplicates that mean loss.
    pub(super) fn is_reordering_high(&self, mss: u32) -> bool {
        self.reordering_octets > mss.saturating_mul(u32::from(self.dup_threshold))
    }

    /// `tcpi_reordering`: by how many segments one was overtaken, but not less than the duplicates
    /// that mean loss.
    pub(super) fn reordering(&self, mss: u32) -> u32 {
        let least = u32::from(self.dup_threshold);
        self.reordering_octets
            .div_ceil(mss.max(1))
            .clamp(least, MAX_REORDERING.max(least))
    }
}

#[cfg(test)]
mod tests;
