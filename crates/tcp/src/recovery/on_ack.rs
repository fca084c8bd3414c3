//! What an acknowledgement means for recovery.

use core::time::Duration;

use wire::tcp::SackBlock;

use crate::congestion::Ack;
use crate::time::Nanos;
use crate::{Instant, SeqNumber};

use super::rack::{Rack, Round};
use super::tlp::ProbeAck;
use super::{Frto, Recovery, SentSegment, State};

/// An acceptable acknowledgement, perhaps an old one with SACK blocks.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement<'a> {
    pub now: Instant,
    /// Not after `snd_nxt`.
    pub ack: SeqNumber,
    /// As they came; they need not be valid.
    pub sack: &'a [SackBlock],
    /// The segment carries no data, SYN or FIN, and the window is the same as before: if it acknowledges nothing new, it is
    /// a duplicate (RFC 5681 §2).
    pub is_plain: bool,
    /// `TSecr`, and the time since it was sent; for a segment with acceptable timestamps.
    pub echo: Option<(u32, Duration)>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Octets newly acknowledged.
    pub acked: u32,
    /// Octets newly known to have arrived.
    pub delivered: u32,
    /// Segments newly deemed lost.
    pub lost: u32,
    /// The round-trip time that was measured.
    pub rtt: Option<Duration>,
    /// The peer has got something twice (RFC 2883).
    pub has_dsack: bool,
    /// Retransmission had not been necessary, and its effects were undone.
    pub was_spurious: bool,
    /// All that was deemed lost is a probe of the path (RFC 4821); it was cut.
    pub has_lost_probe: bool,
}

/// What the segments that an acknowledgement reports tell together.
struct News<'a> {
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
    /// Transmission times of segments sent once: the first and the last acknowledged, the first reported.
    first_acked_at: Option<Instant>,
    last_acked_at: Option<Instant>,
    first_sacked_at: Option<Instant>,
    has_acked_retransmission: bool,
    /// A segment that was sent once, before the timeout, has arrived.
    has_original: bool,
}

impl News<'_> {
    fn on_delivered(&mut self, segment: &SentSegment) {
        if !self.is_sacking && segment.is_retransmitted {
            self.has_acked_retransmission = true;
        }
        if segment.was_sacked {
            return;
        }
        self.delivered = self.delivered.saturating_add(segment.len);
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

    /// RFC 6298 §3 (Karn): only segments sent once. The first acknowledged one is what the peer may have delayed its
    /// acknowledgement for, which the timeout must allow for.
    fn rtt(&self) -> Option<Duration> {
        let sent_at = match self.first_acked_at {
            Some(at) if !self.has_acked_retransmission => Some(at),
            _ => self.first_sacked_at,
        };
        sent_at.map(|at| self.now.saturating_since(at))
    }

    /// Of the segment sent last: without the delay of the acknowledgement.
    fn latest_rtt(&self) -> Option<Duration> {
        let sent_at = match self.last_acked_at {
            Some(at) if !self.has_acked_retransmission => Some(at),
            _ => self.first_sacked_at,
        };
        sent_at.map(|at| self.now.saturating_since(at))
    }
}

/// The peer has got something twice.
#[derive(Clone, Copy, Debug)]
struct Dsack {
    end: SeqNumber,
    /// The reordering window was too short.
    is_too_early: bool,
}

/// What is needed of [`News`] after the scoreboard is updated.
struct Report {
    acked: u32,
    delivered: u32,
    has_sacked: bool,
    has_original: bool,
    is_duplicate: bool,
    rtt: Option<Duration>,
    latest_rtt: Option<Duration>,
}

impl Recovery {
    pub fn on_ack(&mut self, ack: &Acknowledgement<'_>) -> Outcome {
        debug_assert!(ack.ack <= self.snd_nxt);
        let flight_size = self.scoreboard.octets().outstanding;
        let dsack = self.take_dsack(ack);
        let report = self.update_scoreboard(ack);
        let mut outcome = Outcome {
            acked: report.acked,
            delivered: report.delivered,
            rtt: report.rtt,
            has_dsack: dsack.is_some(),
            ..Outcome::default()
        };
        if let Some(rtt) = report.rtt {
            self.rtt
                .on_sample(ack.now, rtt, flight_size, self.settings.mss);
        }
        if let Some(rtt) = report.latest_rtt {
            self.rtt.on_min_rtt_sample(ack.now, rtt);
        }
        if report.acked > 0 {
            self.timeouts = 0;
        }
        self.judge_probe(ack, dsack.map(|dsack| dsack.end), &report);
        outcome.was_spurious =
            dsack.is_some() && self.undo_duplicates(ack.now) || self.advance_state(ack, &report);
        let is_too_early = dsack.is_some_and(|dsack| dsack.is_too_early);
        (outcome.lost, outcome.has_lost_probe) = self.detect_losses(ack.now, &report, is_too_early);
        self.congestion.on_ack(&Ack {
            now: ack.now,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            acked: if report.acked > 0 || self.rack.is_reordering_high(self.settings.mss) {
                report.delivered
            } else {
                0
            },
            delivered: report.delivered,
            in_flight: self.in_flight(),
            is_safe: report.acked > 0 && outcome.lost == 0,
            rtt: report.latest_rtt,
        });
        self.arm_timers(ack.now, &report);
        outcome
    }

    /// RFC 2883 §4: a first block that is below the acknowledgement, or within the second one, reports a duplicate.
    fn take_dsack(&mut self, ack: &Acknowledgement<'_>) -> Option<Dsack> {
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

    fn update_scoreboard(&mut self, ack: &Acknowledgement<'_>) -> Report {
        let snd_una = self.snd_una.max(ack.ack);
        let acked = snd_una - self.snd_una;
        let segments_before = self.scoreboard.segments().outstanding;
        let mut news = News {
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
        };
        self.snd_una = snd_una;
        if self.settings.sack {
            news.is_sacking = true;
            for block in ack.sack {
                let (start, end) = (SeqNumber(block.left), SeqNumber(block.right));
                // What is not wholly between the two is a D-SACK, outdated, or made up.
                if snd_una <= start && start < end && end <= self.snd_nxt {
                    self.scoreboard
                        .sack(start, end, |segment| news.on_delivered(segment));
                }
            }
        }
        if acked > 0 {
            news.is_sacking = false;
            self.scoreboard
                .acknowledge(snd_una, |segment| news.on_delivered(segment));
        }
        if news.has_reordered {
            news.rack.note_reordering();
        }
        let echoed = ack.echo.filter(|_| acked > 0).map(|(_, rtt)| rtt);
        let mut report = Report {
            acked,
            delivered: news.delivered,
            has_sacked: news.has_sacked,
            // Without SACK it is not known which of them the peer had before the first was sent again (as Linux).
            has_original: news.has_original
                && (self.settings.sack || !news.has_acked_retransmission),
            is_duplicate: acked == 0 && ack.ack == snd_una && ack.is_plain && segments_before > 0,
            // RFC 7323 §4.1: a timestamp tells transmissions apart.
            rtt: news.rtt().or(echoed),
            latest_rtt: news.latest_rtt(),
        };
        if !self.settings.sack {
            let gone = segments_before.saturating_sub(self.scoreboard.segments().outstanding);
            report.delivered = self.count_duplicates(&report, gone);
        }
        report
    }

    /// Without SACK each duplicate acknowledgement stands for a segment that has left the network. Returns the octets that
    /// the acknowledgement reports as delivered by that measure (RFC 9937 §6, `DeliveredData`).
    fn count_duplicates(&mut self, report: &Report, gone: u32) -> u32 {
        let mut delivered = report.delivered;
        if report.acked > 0 {
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
        } else if report.is_duplicate && !matches!(self.state, State::Loss { .. }) {
            let most = self.scoreboard.segments().outstanding.saturating_sub(1);
            if self.duplicates < most {
                self.duplicates = self.duplicates.saturating_add(1);
                delivered = self.settings.mss;
            }
        }
        delivered
    }

    fn judge_probe(
        &mut self,
        ack: &Acknowledgement<'_>,
        dsack_end: Option<SeqNumber>,
        report: &Report,
    ) {
        let has_repaired_loss = self.tlp.on_ack(&ProbeAck {
            ack: ack.ack,
            dsack_end,
            is_plain_duplicate: report.acked == 0 && ack.is_plain && ack.sack.is_empty(),
        });
        // RFC 8985 §7.4.2: "Invoke congestion control to react to the loss event the TLP has repaired"
        if has_repaired_loss && matches!(self.state, State::Open) {
            let reduction = self.reduction(ack.now, report.delivered);
            if self.congestion.on_congestion_event(&reduction) {
                self.confirm_reductions();
                self.state = State::Cwr { high: self.snd_nxt };
            }
        }
    }

    /// Undoes and ends episodes. Returns whether one was undone.
    fn advance_state(&mut self, ack: &Acknowledgement<'_>, report: &Report) -> bool {
        let is_original = report.acked > 0 && self.is_original(ack);
        match self.state {
            State::Open => false,
            State::Cwr { high } => {
                // As Linux: until something sent with CWR is acknowledged.
                if self.snd_una > high {
                    self.state = State::Open;
                }
                false
            }
            State::Recovery { high } => {
                let is_over = self.snd_una >= high;
                // While retransmissions are under way it is too early to tell for all of them.
                if is_original && (is_over || self.scoreboard.octets().retransmitted == 0) {
                    return self.undo_reduction();
                }
                if is_over {
                    self.leave_recovery();
                } else if report.acked > 0 && !self.settings.sack {
                    // RFC 6582 §3.2 step 3: a partial acknowledgement shows the next hole.
                    self.scoreboard.mark_first_lost();
                }
                false
            }
            State::Loss { high, frto } => {
                if is_original {
                    return self.undo_reduction();
                }
                self.advance_loss(high, frto, report)
            }
        }
    }

    /// RFC 5682 §3.1, with SACK and without
    fn advance_loss(&mut self, high: SeqNumber, frto: Frto, report: &Report) -> bool {
        let is_over = self.snd_una >= high;
        if frto != Frto::Done {
            // Step 3b: what was not sent again has arrived.
            if report.has_original {
                return self.undo_reduction();
            }
            if self.snd_nxt > high {
                // Step 3a: what was sent after the timeout has arrived, but not what was sent before.
                if report.has_sacked || report.is_duplicate {
                    self.set_frto(high, Frto::Done);
                }
            } else if report.acked > 0 && !is_over {
                // Step 2b
                self.set_frto(self.snd_nxt, Frto::PrefersNew);
            }
        }
        if is_over {
            self.leave_recovery();
        }
        false
    }

    fn set_frto(&mut self, high: SeqNumber, frto: Frto) {
        self.state = State::Loss { high, frto };
    }

    fn leave_recovery(&mut self) {
        self.state = State::Open;
        let round = self.round(false, true);
        self.rack.update_reo_wnd(&round);
    }

    /// Returns the number of segments newly deemed lost, and whether that is a probe of the path only.
    fn detect_losses(&mut self, now: Instant, report: &Report, is_too_early: bool) -> (u32, bool) {
        let before = self.scoreboard.to_retransmit();
        if self.settings.sack {
            let round = self.round(is_too_early, false);
            self.rack.update_reo_wnd(&round);
            if self.rack.take_advanced() {
                self.deadlines.reordering = self.rack.detect_lost(&mut self.scoreboard, now);
            }
        } else if self.duplicates >= u32::from(self.settings.dup_threshold)
            && matches!(self.state, State::Open | State::Cwr { .. })
            && self.snd_una > self.recover
            && report.is_duplicate
        {
            // RFC 6582 §3.2 step 2
            self.scoreboard.mark_first_lost();
        }
        let lost = self.scoreboard.to_retransmit().saturating_sub(before);
        if lost == 0 {
            return (0, false);
        }
        let is_probe = self.is_lost_probe(lost);
        if !is_probe {
            self.enter_recovery(now, report.delivered);
        }
        (lost, is_probe)
    }

    fn round(&self, has_dsack: bool, is_leaving_recovery: bool) -> Round {
        Round {
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            has_dsack,
            is_leaving_recovery,
            is_in_recovery: matches!(self.state, State::Recovery { .. } | State::Loss { .. }),
            segments_sacked: self.scoreboard.segments().sacked,
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
        }
    }

    /// RFC 6298 §5.2, §5.3
    fn arm_timers(&mut self, now: Instant, report: &Report) {
        if self.scoreboard.is_empty() {
            self.deadlines = super::timeout::Deadlines::default();
        } else if report.acked > 0 {
            let timeout = if self.scoreboard.is_reneging() {
                self.reneging_timeout()
            } else {
                self.rtt.rto_nanos()
            };
            self.deadlines.retransmission = Some(now + timeout);
            self.schedule_probe(now);
        } else if report.has_sacked {
            // RFC 8985 §7.2: RACK has evidence to go by.
            self.deadlines.probe = None;
        }
    }

    /// What the peer has reported and does not acknowledge it has thrown away (RFC 2018 §8), or is about to acknowledge
    /// (`tcp_check_sack_reneging`).
    #[cold]
    fn reneging_timeout(&self) -> Nanos {
        let srtt = Nanos::from(self.rtt.srtt().unwrap_or_default());
        let least = Nanos::from(RENEGING_TIMEOUT_MIN);
        Nanos::new(srtt.get() / 2)
            .max(least)
            .min(self.rtt.rto_nanos())
    }
}

const RENEGING_TIMEOUT_MIN: Duration = Duration::from_millis(10);
