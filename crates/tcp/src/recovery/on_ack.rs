//! What an acknowledgement means for recovery.

use core::time::Duration;

use crate::congestion::Ack;
use crate::time::Nanos;
use crate::{Instant, SeqNumber};

use super::acknowledgement::{Acknowledgement, Outcome};
use super::deadlines::Deadlines;
use super::delivery::Delivery;
use super::rack::Round;
use super::tlp::ProbeAck;
use super::{Frto, Recovery, State};

/// The least time that a peer has to acknowledge what it reported.
const RENEGING_TIMEOUT_MIN: Duration = Duration::from_millis(10);

impl Recovery {
    pub fn on_ack(&mut self, ack: &Acknowledgement<'_>) -> Outcome {
        debug_assert!(ack.ack <= self.snd_nxt);
        let flight_size = self.scoreboard.octets().outstanding;
        let dsack = self.take_dsack(ack);
        let delivery = self.update_scoreboard(ack);
        self.congestion.on_delivered(delivery.delivered, ack.now);
        let mut outcome = Outcome {
            acked: delivery.acked,
            delivered: delivery.delivered,
            rtt: delivery.rtt,
            has_dsack: dsack.is_some(),
            ..Outcome::default()
        };
        if let Some(rtt) = delivery.rtt {
            self.rtt
                .on_sample(ack.now, rtt, flight_size, self.settings.mss);
        }
        if let Some(rtt) = delivery.latest_rtt {
            self.rtt.on_min_rtt_sample(ack.now, rtt);
        }
        if delivery.acked > 0 {
            self.timeouts = 0;
        }
        self.judge_probe(ack, dsack.map(|dsack| dsack.end), &delivery);
        let was_recovering = self.is_recovering();
        outcome.was_spurious =
            dsack.is_some() && self.undo_duplicates(ack.now) || self.advance_state(ack, &delivery);
        let is_too_early = dsack.is_some_and(|dsack| dsack.is_too_early);
        (outcome.lost, outcome.has_lost_probe) =
            self.detect_losses(ack.now, &delivery, is_too_early);
        if was_recovering && !self.is_recovering() && self.scoreboard.segments().lost > 0 {
            // As Linux (`tcp_time_to_recover`): what was sent after the episode had begun, and is
            // deemed lost, is another's.
            self.enter_recovery(ack.now, delivery.delivered);
        }
        self.congestion.on_ack(&Ack {
            now: ack.now,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            acked: if delivery.acked > 0 || self.rack.is_reordering_high(self.settings.mss) {
                delivery.delivered
            } else {
                0
            },
            delivered: delivery.delivered,
            in_flight: self.in_flight(),
            is_safe: delivery.acked > 0 && outcome.lost == 0,
            rtt: delivery.latest_rtt,
            newest: delivery.newest,
        });
        self.arm_timers(ack.now, &delivery);
        outcome
    }

    fn judge_probe(
        &mut self,
        ack: &Acknowledgement<'_>,
        dsack_end: Option<SeqNumber>,
        delivery: &Delivery,
    ) {
        let has_repaired_loss = self.tlp.on_ack(&ProbeAck {
            ack: ack.ack,
            dsack_end,
            is_plain_duplicate: delivery.acked == 0 && ack.is_plain && ack.sack.is_empty(),
        });
        // RFC 8985 §7.4.2: "Invoke congestion control to react to the loss event the TLP has
        // repaired"
        if has_repaired_loss && matches!(self.state, State::Open) {
            let reduction = self.reduction(ack.now, delivery.delivered);
            if self.congestion.on_congestion_event(&reduction) {
                self.confirm_reductions();
                self.state = State::Cwr { high: self.snd_nxt };
            }
        }
    }

    /// Undoes and ends episodes. Returns whether one was undone.
    fn advance_state(&mut self, ack: &Acknowledgement<'_>, delivery: &Delivery) -> bool {
        let is_original = delivery.acked > 0 && self.is_original(ack);
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
                } else if delivery.acked > 0 && !self.settings.sack {
                    // RFC 6582 §3.2 step 3: a partial acknowledgement shows the next hole.
                    self.mark_first_lost(ack.now);
                }
                false
            }
            State::Loss { high, frto } => {
                if is_original {
                    return self.undo_reduction();
                }
                self.advance_loss(high, frto, delivery)
            }
        }
    }

    /// RFC 5682 §3.1, with SACK and without
    fn advance_loss(&mut self, high: SeqNumber, frto: Frto, delivery: &Delivery) -> bool {
        let is_over = self.snd_una >= high;
        if frto != Frto::Done {
            // Step 3b: what was not sent again has arrived.
            if delivery.has_original {
                return self.undo_reduction();
            }
            if self.snd_nxt > high {
                // Step 3a: what was sent after the timeout has arrived, but not what was sent
                // before.
                if delivery.has_sacked || delivery.is_duplicate {
                    self.set_frto(high, Frto::Done);
                }
            } else if delivery.acked > 0 && !is_over {
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

    /// Returns the number of segments newly deemed lost, and whether that is a probe of the path
    /// only.
    fn detect_losses(
        &mut self,
        now: Instant,
        delivery: &Delivery,
        is_too_early: bool,
    ) -> (u32, bool) {
        let before = self.scoreboard.to_retransmit();
        if self.settings.sack {
            let round = self.round(is_too_early, false);
            self.rack.update_reo_wnd(&round);
            if self.rack.take_advanced() {
                self.detect_overdue(now);
            }
        } else if self.duplicates >= u32::from(self.settings.dup_threshold)
            && matches!(self.state, State::Open | State::Cwr { .. })
            && self.snd_una > self.recover
            && delivery.is_duplicate
        {
            // RFC 6582 §3.2 step 2
            self.mark_first_lost(now);
        }
        let lost = self.scoreboard.to_retransmit().saturating_sub(before);
        if lost == 0 {
            return (0, false);
        }
        let is_probe = self.cut_lost_probe(lost);
        if !is_probe {
            self.enter_recovery(now, delivery.delivered);
        }
        (lost, is_probe)
    }

    fn round(&self, has_dsack: bool, is_leaving_recovery: bool) -> Round {
        Round {
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            has_dsack,
            is_leaving_recovery,
            is_in_recovery: self.is_recovering(),
            segments_sacked: self.scoreboard.segments().sacked,
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
        }
    }

    /// RFC 6298 §5.2, §5.3
    fn arm_timers(&mut self, now: Instant, delivery: &Delivery) {
        if self.scoreboard.is_empty() {
            self.deadlines = Deadlines::default();
        } else if delivery.acked > 0 {
            let timeout = if self.scoreboard.is_reneging() {
                self.reneging_timeout()
            } else {
                self.rtt.rto_nanos()
            };
            self.deadlines.retransmission = Some(now + timeout);
            self.schedule_probe(now);
        } else if delivery.has_sacked {
            // RFC 8985 §7.2: RACK has evidence to go by.
            self.deadlines.probe = None;
        }
    }

    /// What the peer has reported and does not acknowledge it has thrown away (RFC 2018 §8), or is
    /// about to acknowledge (`tcp_check_sack_reneging`).
    #[cold]
    fn reneging_timeout(&self) -> Nanos {
        let srtt = Nanos::from(self.rtt.srtt().unwrap_or_default());
        let least = Nanos::from(RENEGING_TIMEOUT_MIN);
        Nanos::new(srtt.get() / 2)
            .max(least)
            .min(self.rtt.rto_nanos())
    }
}
