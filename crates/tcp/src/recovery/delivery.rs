//! What an acknowledgement says has arrived: it updates the scoreboard; the decisions are made by
//! the [`Delivery`] that comes of it (`on_ack.rs`).

use core::time::Duration;

use super::acknowledgement::Acknowledgement;
use super::rack::Rack;
use super::scoreboard::sent_after;
use super::{Recovery, SentSegment, State};
use crate::{Instant, SeqNumber};

/// Adds up the segments that one acknowledgement reports, while the scoreboard goes through them.
struct Tally<'a> {
    now: Instant,
    rack: &'a mut Rack,
    prior_fack: Option<SeqNumber>,
    min_rtt: Option<Duration>,
    /// The timestamp says that what arrived was sent before the first retransmission.
    is_original: bool,
    /// The end of what a timeout put into doubt.
    doubted: Option<SeqNumber>,
    delivered: u32,
    is_sacking: bool,
    has_sacked: bool,
    has_reordered: bool,
    /// Transmission times of segments sent once: the first and the last acknowledged, the first
    /// reported.
    first_acked_at: Option<Instant>,
    last_acked_at: Option<Instant>,
    first_sacked_at: Option<Instant>,
    has_acked_retransmission: bool,
    /// A segment that was sent once, before the timeout, has arrived.
    has_original: bool,
    /// The transmission and the end of the segment sent last.
    newest: Option<(Instant, SeqNumber)>,
}

impl Tally<'_> {
    fn on_delivered(&mut self, segment: &SentSegment) {
        if !self.is_sacking && segment.is_retransmitted {
            self.has_acked_retransmission = true;
        }
        if segment.was_sacked {
            return;
        }
        self.delivered = self.delivered.saturating_add(segment.len);
        let end = segment.end();
        if self
            .newest
            .is_none_or(|newest| !sent_after(newest, segment.sent_at, end))
        {
            self.newest = Some((segment.sent_at, end));
        }
        self.has_sacked |= self.is_sacking;
        self.has_reordered |= self.rack.on_delivered(
            segment,
            self.prior_fack,
            self.min_rtt,
            self.is_original,
            self.now,
        );
        if segment.is_retransmitted {
            return;
        }
        self.has_original |= self.doubted.is_some_and(|end| segment.end() <= end);
        if self.is_sacking {
            self.first_sacked_at.get_or_insert(segment.sent_at);
        } else {
            self.first_acked_at.get_or_insert(segment.sent_at);
            self.last_acked_at = Some(segment.sent_at);
        }
    }

    /// RFC 6298 §3 (Karn): only segments sent once. The first acknowledged one is what the peer may
    /// have delayed its acknowledgement for, which the timeout must allow for.
    fn rtt(&self) -> Option<Duration> {
        self.rtt_since(self.first_acked_at)
    }

    /// Of the segment sent last: without the delay of the acknowledgement.
    fn latest_rtt(&self) -> Option<Duration> {
        self.rtt_since(self.last_acked_at)
    }

    fn rtt_since(&self, acked_at: Option<Instant>) -> Option<Duration> {
        let sent_at = match acked_at {
            Some(at) if !self.has_acked_retransmission => Some(at),
            _ => self.first_sacked_at,
        };
        sent_at.map(|at| self.now.saturating_since(at))
    }
}

/// The peer has got something twice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dsack {
    /// Behind what arrived twice.
    pub(super) end: SeqNumber,
    /// The reordering window was too short.
    pub(super) is_too_early: bool,
}

/// What one acknowledgement reports.
pub(super) struct Delivery {
    /// Octets by which `SND.UNA` advanced.
    pub(super) acked: u32,
    /// Octets newly known to have arrived, those acknowledged included.
    pub(super) delivered: u32,
    /// SACK blocks report something for the first time.
    pub(super) has_sacked: bool,
    /// A segment that was sent once, before the timeout, has arrived.
    pub(super) has_original: bool,
    /// A duplicate acknowledgement (RFC 5681 §2).
    pub(super) is_duplicate: bool,
    /// A sample for the retransmission timeout: with the time for which the peer delayed the
    /// acknowledgement.
    pub(super) rtt: Option<Duration>,
    /// That of the segment sent last: without that time.
    pub(super) latest_rtt: Option<Duration>,
    /// When the segment was sent that was sent last of those that have arrived, and where it ends.
    pub(super) newest: Option<(Instant, SeqNumber)>,
}

impl Recovery {
    /// RFC 2883 §4: a first block that is below the acknowledgement, or within the second one,
    /// reports a duplicate.
    pub(super) fn take_dsack(&mut self, ack: &Acknowledgement<'_>) -> Option<Dsack> {
        let first = ack.sack.first().filter(|_| self.settings.sack)?;
        let (start, end) = (SeqNumber(first.left), SeqNumber(first.right));
        let is_below = end <= ack.ack;
        let is_within_second = ack.sack.get(1).is_some_and(|second| {
            SeqNumber(second.left) <= start && end <= SeqNumber(second.right)
        });
        // Neither is the later of two numbers that are 2^31 apart.
        if end <= start || !(is_below || is_within_second) || end > self.snd_nxt {
            return None;
        }
        let segments = (end - start).div_ceil(self.settings.mss.max(1));
        self.dsack_duplicates = self.dsack_duplicates.saturating_add(segments);
        let is_too_early = self.judge_duplicate(end, segments);
        Some(Dsack { end, is_too_early })
    }

    pub(super) fn update_scoreboard(&mut self, ack: &Acknowledgement<'_>) -> Delivery {
        let snd_una = self.snd_una.max(ack.ack);
        let acked = snd_una - self.snd_una;
        let segments_before = self.scoreboard.segments().outstanding;
        let mut tally = Tally {
            now: ack.now,
            is_original: self.is_original(ack),
            prior_fack: self.rack.fack(),
            rack: &mut self.rack,
            min_rtt: self.rtt.min_rtt(),
            doubted: match self.state {
                State::Loss { high, .. } => Some(high),
                State::Open | State::Cwr { .. } | State::Recovery { .. } => None,
            },
            delivered: 0,
            is_sacking: false,
            has_sacked: false,
            has_reordered: false,
            first_acked_at: None,
            last_acked_at: None,
            first_sacked_at: None,
            has_acked_retransmission: false,
            has_original: false,
            newest: None,
        };
        self.snd_una = snd_una;
        if self.settings.sack {
            tally.is_sacking = true;
            for block in ack.sack {
                let (start, end) = (SeqNumber(block.left), SeqNumber(block.right));
                // What is not wholly between the two is a D-SACK, outdated, or made up.
                if snd_una <= start && start < end && end <= self.snd_nxt {
                    self.scoreboard
                        .sack(start, end, |segment| tally.on_delivered(segment));
                }
            }
        }
        if acked > 0 {
            tally.is_sacking = false;
            self.scoreboard
                .acknowledge(snd_una, |segment| tally.on_delivered(segment));
        }
        if tally.has_reordered {
            tally.rack.note_reordering();
        }
        let echoed = ack.echo.filter(|_| acked > 0).map(|(_, rtt)| rtt);
        let mut delivery = Delivery {
            acked,
            delivered: tally.delivered,
            has_sacked: tally.has_sacked,
            // Without SACK it is not known which of them the peer had before the first was sent
            // again (as Linux).
            has_original: tally.has_original
                && (self.settings.sack || !tally.has_acked_retransmission),
            is_duplicate: acked == 0 && ack.ack == snd_una && ack.is_plain && segments_before > 0,
            // RFC 7323 §4.1: a timestamp tells transmissions apart.
            rtt: tally.rtt().or(echoed),
            latest_rtt: tally.latest_rtt(),
            newest: tally.newest,
        };
        if !self.settings.sack {
            let gone = segments_before.saturating_sub(self.scoreboard.segments().outstanding);
            delivery.delivered = self.count_duplicates(&delivery, gone);
        }
        delivery
    }

    /// Without SACK each duplicate acknowledgement stands for a segment that has left the network.
    /// Returns the octets that the acknowledgement reports as delivered by that measure (RFC 9937
    /// §6, `DeliveredData`).
    fn count_duplicates(&mut self, delivery: &Delivery, gone: u32) -> u32 {
        let mut delivered = delivery.delivered;
        if delivery.acked > 0 {
            // The first of them filled the hole; the others had been counted.
            let counted = self.duplicates.min(gone.saturating_sub(1));
            delivered = delivered.saturating_sub(counted.saturating_mul(self.settings.mss));
            self.duplicates = self.duplicates.saturating_sub(gone.saturating_sub(1));
            if !matches!(self.state, State::Recovery { high } if self.snd_una < high) {
                self.duplicates = 0;
            }
            // It must not fall so far behind that the comparison turns.
            if self.snd_una > self.recover {
                self.recover = self.snd_una - 1;
            }
        } else if delivery.is_duplicate && !matches!(self.state, State::Loss { .. }) {
            let most = self.scoreboard.segments().outstanding.saturating_sub(1);
            if self.duplicates < most {
                self.duplicates = self.duplicates.saturating_add(1);
                delivered = self.settings.mss;
            }
        }
        delivered
    }
}
