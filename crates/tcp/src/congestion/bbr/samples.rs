//! Delivery rate samples, one for each acknowledgement (section "Delivery Rate Samples").
//!
//! A sample compares what is delivered with what was known when the newest segment that the
//! acknowledgement reports was sent. The draft keeps that with every packet, or every "aggregate";
//! here it is kept for the segments that are sent at one time and in one row together, beside the
//! scoreboard, whose segments all connections pay for. For `TCP_INFO` a sample in a round trip is
//! enough (`outgoing/delivery_rate.rs`), which costs other connections nothing.

use std::collections::VecDeque;

use crate::congestion::window::{Ack, Transmission};
use crate::time::Nanos;
use crate::{Instant, SeqNumber};

/// Rows that are remembered: more than there are segments outstanding.
const MOST_FLIGHTS: usize = 1 << 17;

/// Segments that were sent at one time, one behind the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    sent_at: Instant,
    /// `P.first_send_time`, `P.delivered_time`, `P.delivered`, `P.lost`: as they were before it.
    first_sent_at: Instant,
    delivered_at: Instant,
    delivered: u64,
    lost: u64,
    /// Behind its last octet.
    end: SeqNumber,
    octets: u32,
    /// `P.tx_in_flight` of its last segment.
    in_flight: u32,
    pub(super) is_app_limited: bool,
}

impl Flight {
    /// `P.tx_in_flight` of its segment that ends at `end`.
    pub(super) fn in_flight_at(&self, end: SeqNumber) -> u32 {
        let behind = if end < self.end { self.end - end } else { 0 };
        self.in_flight.saturating_sub(behind.min(self.octets))
    }

    fn contains(&self, end: SeqNumber) -> bool {
        end <= self.end && self.end - end < self.octets
    }
}

/// The connection's part (`C` in the draft).
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    /// In the order of their times.
    flights: VecDeque<Flight>,
    delivered: u64,
    lost: u64,
    delivered_at: Instant,
    first_sent_at: Instant,
    /// What will be delivered when the last segment has arrived that was sent before the
    /// application had no more.
    app_limited_until: Option<u64>,
}

/// `RS`. Octets, nanoseconds, octets a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Something arrived of which it is known when it was sent.
    pub(super) has_data: bool,
    pub(super) is_app_limited: bool,
    /// 0: none that is reliable.
    pub(super) rate: u64,
    pub(super) delivered: u64,
    pub(super) prior_delivered: u64,
    pub(super) newly_acked: u32,
    /// What was in flight when the newest segment was sent, and what was lost since.
    pub(super) in_flight: u32,
    pub(super) lost: u64,
    pub(super) rtt: Option<u64>,
}

impl Sampler {
    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) const fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// `OnPacketSent`
    pub(super) fn on_sent(&mut self, sent: &Transmission) {
        if sent.is_alone {
            self.first_sent_at = sent.now;
            self.delivered_at = sent.now;
        }
        let is_app_limited = self.is_app_limited();
        if let Some(last) = self.flights.back_mut()
            && last.sent_at >= sent.now
            && last.delivered == self.delivered
            && last.lost == self.lost
            && last.is_app_limited == is_app_limited
            && !sent.is_alone
            && sent.end == last.end + sent.octets
        {
            last.end = sent.end;
            last.octets = last.octets.saturating_add(sent.octets);
            last.in_flight = sent.in_flight;
            return;
        }
        if self.flights.len() >= MOST_FLIGHTS {
            self.flights.pop_front();
        }
        // A clock that steps back must not put them out of order.
        let latest = self.flights.back().map_or(sent.now, |last| last.sent_at);
        self.flights.push_back(Flight {
            sent_at: sent.now.max(latest),
            first_sent_at: self.first_sent_at,
            delivered_at: self.delivered_at,
            delivered: self.delivered,
            lost: self.lost,
            end: sent.end,
            octets: sent.octets,
            in_flight: sent.in_flight,
            is_app_limited,
        });
    }

    /// `MarkConnectionAppLimited`
    pub(super) fn mark_app_limited(&mut self, in_flight: u32) {
        let until = self.delivered.saturating_add(u64::from(in_flight)).max(1);
        self.app_limited_until = Some(until);
    }

    pub(super) fn on_lost(&mut self, octets: u32) {
        self.lost = self.lost.saturating_add(u64::from(octets));
    }

    /// What was known when the segment that ends at `end` was sent at `sent_at`. `None`: that is
    /// not remembered.
    pub(super) fn find(&self, sent_at: Instant, end: SeqNumber) -> Option<&Flight> {
        let first = self
            .flights
            .partition_point(|flight| flight.sent_at < sent_at);
        let same_time = self
            .flights
            .range(first..)
            .take_while(|flight| flight.sent_at == sent_at);
        let mut candidates = same_time.clone().filter(|flight| flight.contains(end));
        candidates.next().or_else(|| same_time.clone().next())
    }

    /// The first part of `UpdateRateSample`.
    pub(super) fn on_delivered(&mut self, octets: u32, now: Instant) {
        if octets > 0 {
            self.delivered = self.delivered.saturating_add(u64::from(octets));
            self.delivered_at = now;
        }
    }

    /// `UpdateRateSample` and `GenerateRateSample`. `min_rtt` in nanoseconds.
    pub(super) fn on_ack(&mut self, ack: &Ack, min_rtt: Option<u64>) -> Sample {
        let mut sample = Sample {
            newly_acked: ack.delivered,
            rtt: ack.rtt.map(|rtt| Nanos::from(rtt).get()),
            ..Sample::default()
        };
        let newest = ack.newest.filter(|_| ack.delivered > 0);
        let flight = newest.and_then(|(sent_at, end)| Some((*self.find(sent_at, end)?, end)));
        if let Some((flight, end)) = flight {
            self.first_sent_at = flight.sent_at;
            let sending = flight.sent_at.nanos_since(flight.first_sent_at);
            let arriving = ack.now.nanos_since(flight.delivered_at);
            let interval = sending.max(arriving);
            sample.has_data = true;
            sample.is_app_limited = flight.is_app_limited;
            sample.prior_delivered = flight.delivered;
            sample.delivered = self.delivered.saturating_sub(flight.delivered);
            sample.in_flight = flight.in_flight_at(end);
            sample.lost = self.lost.saturating_sub(flight.lost);
            // "No reliable sample": faster than anything can be.
            let least = [min_rtt, sample.rtt].into_iter().flatten().min();
            if interval >= least.unwrap_or(0) {
                sample.rate = rate_of(sample.delivered, interval);
            }
        }
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = None;
        }
        while self
            .flights
            .front()
            .is_some_and(|flight| flight.end <= ack.snd_una)
        {
            self.flights.pop_front();
        }
        sample
    }

    /// What was lost since a flight left, all that is newly known included.
    pub(super) fn lost_since(&self, flight: &Flight) -> u64 {
        self.lost.saturating_sub(flight.lost)
    }
}

/// In octets a second; 0 for no time.
fn rate_of(octets: u64, nanos: u64) -> u64 {
    octets
        .saturating_mul(1_000_000_000)
        .checked_div(nanos)
        .unwrap_or(0)
}
