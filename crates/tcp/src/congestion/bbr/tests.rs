//! A sender with this model over a bottleneck: each segment takes its time at the rate, behind
//! those before it.

use std::collections::VecDeque;

use super::amounts::{UNBOUNDED, UNBOUNDED_RATE, octets, octets_in};
use super::episode::LostSegment;
use super::probing::AckPhase;
use super::*;
use crate::SeqNumber;
use crate::congestion::initial_window;

mod states;
mod units;

pub(super) const MSS: u32 = 1000;

/// A segment under way: where it ends, when it was sent, and when its acknowledgement comes back;
/// lost if never.
struct Segment {
    end: SeqNumber,
    sent_at: Instant,
    acked_at: Option<Instant>,
}

pub(super) struct Path {
    pub(super) bbr: Bbr,
    pub(super) window: Window,
    pub(super) now: Instant,
    /// Octets a second; without queues, there and back.
    pub(super) rate: u64,
    pub(super) rtt: Duration,
    /// Segments that the queue holds.
    pub(super) queue: u64,
    /// One of so many is lost; 0 for none.
    pub(super) lose_every: u64,
    busy_until: Instant,
    next_send: Instant,
    under_way: VecDeque<Segment>,
    snd_una: SeqNumber,
    snd_nxt: SeqNumber,
    sent: u64,
    pub(super) lost: u64,
    /// The end of what was sent when recovery began, while it lasts.
    recover: Option<SeqNumber>,
    /// All states that it was in, in order.
    pub(super) states: Vec<State>,
}

impl Path {
    pub(super) fn new(rate: u64, rtt: Duration) -> Self {
        let iw = initial_window(MSS, 10);
        let window = Window {
            cwnd: iw,
            ssthresh: u32::MAX,
            mss: MSS,
        };
        let mut bbr = Bbr::new(&window, iw);
        bbr.learn(&PathFacts {
            srtt: Some(rtt),
            has_sack: true,
            seed: 7,
        });
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            bbr,
            window,
            now,
            rate,
            rtt,
            queue: 100_000,
            lose_every: 0,
            busy_until: now,
            next_send: now,
            under_way: VecDeque::new(),
            // Across the wrap of sequence numbers.
            snd_una: SeqNumber(u32::MAX - 5_000),
            snd_nxt: SeqNumber(u32::MAX - 5_000),
            sent: 0,
            lost: 0,
            recover: None,
            states: vec![State::Startup],
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        MSS * u32::try_from(self.under_way.len()).expect("few")
    }

    /// What the path holds without a queue.
    pub(super) fn bdp(&self) -> u32 {
        octets(octets_in(self.rate, Nanos::from(self.rtt).get()))
    }

    pub(super) fn send(&mut self) {
        let is_alone = self.under_way.is_empty();
        if is_alone {
            self.bbr.before_flight(&mut self.window, self.now);
        }
        let per_segment = Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / self.rate);
        let waiting = self.busy_until.saturating_since(self.now);
        self.sent += 1;
        let is_full = waiting > per_segment * u32::try_from(self.queue).expect("short");
        let is_lost = is_full || self.lose_every > 0 && self.sent.is_multiple_of(self.lose_every);
        if !is_lost {
            self.busy_until = self.busy_until.max(self.now) + per_segment;
        }
        self.snd_nxt += MSS;
        self.under_way.push_back(Segment {
            end: self.snd_nxt,
            sent_at: self.now,
            acked_at: (!is_lost).then(|| self.busy_until + self.rtt),
        });
        let in_flight = self.in_flight();
        self.bbr.on_sent(&Transmission {
            now: self.now,
            octets: MSS,
            end: self.snd_nxt,
            is_alone,
            in_flight,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
        });
        let pause = u64::from(MSS) * 1_000_000_000 / self.bbr.pacing_rate().max(1);
        self.next_send = self.next_send.max(self.now) + Nanos::new(pause);
    }

    /// The first segments under way that are lost are found by what has arrived behind them. Losses
    /// are not sent again: only the model is looked at.
    fn find_losses(&mut self) {
        while let Some(first) = self.under_way.front()
            && first.acked_at.is_none()
        {
            let lost = LostSegment {
                seq: first.end - MSS,
                len: MSS,
                sent_at: first.sent_at,
            };
            self.under_way.pop_front();
            self.lost += 1;
            self.bbr.on_lost(&self.window, &lost, self.now);
            if self.recover.is_none() {
                self.recover = Some(self.snd_nxt);
                self.bbr.on_recovery_begins(&self.window);
            }
        }
    }

    pub(super) fn acknowledge(&mut self) {
        let Some(at) = self.under_way.iter().find_map(|segment| segment.acked_at) else {
            // All of them are lost.
            self.under_way.clear();
            return;
        };
        self.now = self.now.max(at);
        let was_limited = self.in_flight() + MSS > self.window.cwnd;
        self.bbr.on_delivered(MSS, self.now);
        self.find_losses();
        let arrived = self.under_way.pop_front().expect("it was found");
        self.snd_una = arrived.end;
        if self.recover.is_some_and(|end| self.snd_una >= end) {
            self.recover = None;
            self.bbr.on_recovery_ends(&mut self.window);
        }
        let ack = Ack {
            now: self.now,
            snd_una: self.snd_una,
            snd_nxt: self.snd_nxt,
            acked: MSS,
            delivered: MSS,
            in_flight: self.in_flight(),
            is_safe: true,
            rtt: Some(self.now - arrived.sent_at),
            newest: Some((arrived.sent_at, arrived.end)),
        };
        self.bbr.on_ack(&mut self.window, &ack, was_limited);
        if self.states.last() != Some(&self.bbr.state) {
            self.states.push(self.bbr.state);
        }
    }

    /// One thing happens: a segment leaves, or an acknowledgement comes.
    pub(super) fn step(&mut self) {
        let next_ack = self.under_way.iter().find_map(|segment| segment.acked_at);
        let has_room = self.in_flight() + MSS <= self.window.cwnd;
        let at = self.next_send.max(self.now);
        if has_room && next_ack.is_none_or(|ack| at < ack) {
            self.now = at;
            self.send();
        } else {
            self.acknowledge();
        }
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    pub(super) fn run_until(&mut self, state: State) {
        for _ in 0..2_000_000 {
            if self.bbr.state == state {
                return;
            }
            self.step();
        }
        panic!("{state:?} does not come: {:?}", self.states);
    }

    /// The path is known.
    pub(super) fn cruising() -> Self {
        let mut path = Self::new(10_000_000, Duration::from_millis(20));
        path.run_until(State::ProbeBw(Cycle::Cruise));
        path
    }
}
