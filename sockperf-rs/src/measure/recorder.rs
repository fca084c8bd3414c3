//! Cutting the measurement window out of a stream of round trips, in constant memory.
//!
//! What is sent in the first 400 ms, unless told otherwise (caches, routes and frequency settle)
//! and in the last 50 ms (the client's own end) does not count. Where the last 50 ms begin is known
//! only at the end, so every event waits in a delay line until it is certain to be older than that.

use std::collections::VecDeque;

use crate::error::Error;
use crate::measure::bins::Bins;
use crate::measure::event::{Event, Outcome};
use crate::measure::intervals::Tap;
use crate::measure::round_trips::RoundTrips;
use crate::measure::sample_log::SampleLog;
use crate::measure::settling::{Settling, Slices};
use crate::options::{ClientOptions, Mode, TestLength};

/// What is sent this shortly before the last message does not count.
pub const COOL_DOWN_NSEC: u64 = 50_000_000;
/// With a number of packets instead of a time, this many messages at the start do not count.
pub const WARM_UP_PACKETS: u64 = 8000;
/// With a number of packets, this many more messages are sent after the ones that count.
pub const COOL_DOWN_PACKETS: u64 = 1000;

/// Which messages count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// All but those sent this soon after the first one, and in the last 50 ms.
    AfterWarmUp {
        /// 400 ms, unless told otherwise.
        warm_up_nsec: u64,
    },
    /// This many, after the first 8000.
    Packets(u64),
    /// All.
    Everything,
}

/// Takes the events of a run in the order of sending and keeps what the report needs.
#[derive(Debug)]
pub struct Recorder {
    window: Window,
    first_tx_nsec: Option<u64>,
    seen: u64,
    pending: VecDeque<Event>,
    valid: Valid,
    slices: Slices,
    tap: Option<Tap>,
}

/// What happened to the messages that count.
#[derive(Debug)]
pub struct Valid {
    /// Messages sent, whatever became of them.
    pub sent: u64,
    /// Messages without a reply.
    pub dropped: u64,
    /// Messages whose reply overtook an earlier one.
    pub out_of_order: u64,
    /// The round-trip times.
    pub round_trips: RoundTrips,
    /// The same, counted from when the message should have been sent: what a client sees that does
    /// not wait for a slow server. Only where there is a plan.
    pub corrected: Option<RoundTrips>,
    /// The bins of `--histogram`.
    pub bins: Option<Bins>,
    /// The samples of `--full-log`.
    pub log: Option<SampleLog>,
    /// When the latency settled, warm-up included; `None` if the test is too short to tell.
    pub settling: Option<Settling>,
    first_tx_nsec: u64,
    last_end_nsec: u64,
    lag_factor: u64,
}

impl Recorder {
    /// What records a client's samples.
    pub fn of_client(options: &ClientOptions, tap: Option<Tap>) -> Result<Self, Error> {
        let results = &options.results;
        let log = results
            .full_log
            .as_ref()
            .map(|_| SampleLog::with_capacity(SampleLog::capacity_for(options)));
        let bins = results
            .histogram
            .map(|bins| Bins::new(bins, results.full_rtt));
        let recorder = Self::new(Window::of(options), bins, log.transpose()?)?;
        let recorder = recorder.with_tap(tap);
        let has_plan = options.mode == Mode::Playback
            || (options.mode == Mode::UnderLoad && options.messages_per_second.is_some());
        if has_plan {
            recorder.with_corrected(if results.full_rtt { 1 } else { 2 })
        } else {
            Ok(recorder)
        }
    }

    /// A recorder with the optional bins and sample log filled in.
    pub fn new(window: Window, bins: Option<Bins>, log: Option<SampleLog>) -> Result<Self, Error> {
        Ok(Self {
            window,
            first_tx_nsec: None,
            seen: 0,
            pending: VecDeque::with_capacity(match window {
                Window::AfterWarmUp { .. } => PENDING_CAPACITY,
                Window::Packets(_) | Window::Everything => 0,
            }),
            slices: Slices::new(),
            tap: None,
            valid: Valid {
                sent: 0,
                dropped: 0,
                out_of_order: 0,
                round_trips: RoundTrips::new()?,
                corrected: None,
                bins,
                log,
                settling: None,
                first_tx_nsec: 0,
                last_end_nsec: 0,
                lag_factor: 1,
            },
        })
    }

    /// Also keeps the times counted from when the messages should have been sent.
    ///
    /// Latency is half the round trip, but all of the lag: `lag_factor` is 2 where times will be
    /// halved.
    pub fn with_corrected(mut self, lag_factor: u64) -> Result<Self, Error> {
        self.valid.lag_factor = lag_factor;
        self.valid.corrected = Some(RoundTrips::new()?);
        Ok(self)
    }

    /// Also shows every event to the reports of intervals.
    #[must_use]
    pub fn with_tap(mut self, tap: Option<Tap>) -> Self {
        self.tap = tap;
        self
    }

    /// Takes the next event. Does not allocate.
    #[inline]
    pub fn record(&mut self, event: Event) {
        if let Some(tap) = &mut self.tap {
            tap.record(&event);
        }
        match self.window {
            Window::Packets(count) => {
                let index = self.seen;
                self.seen += 1;
                if (WARM_UP_PACKETS..WARM_UP_PACKETS.saturating_add(count)).contains(&index) {
                    self.valid.record(event);
                }
            }
            Window::Everything => self.valid.record(event),
            Window::AfterWarmUp { warm_up_nsec } => {
                if let Outcome::Received(rtt_nsec) = event.outcome {
                    self.slices.record(event.tx_nsec, rtt_nsec);
                }
                let first_tx_nsec = *self.first_tx_nsec.get_or_insert(event.tx_nsec);
                if event.tx_nsec < first_tx_nsec.saturating_add(warm_up_nsec) {
                    return;
                }
                self.release(event.tx_nsec);
                // Reached only at more than 5 million messages a second; the cool-down is then
                // shorter.
                if self.pending.len() == PENDING_CAPACITY
                    && let Some(oldest) = self.pending.pop_front()
                {
                    self.valid.record(oldest);
                }
                self.pending.push_back(event);
            }
        }
    }

    /// Ends the recording. `last_tx_nsec` is when the last message was sent, answered or not.
    pub fn finish(mut self, last_tx_nsec: u64) -> Valid {
        self.release(last_tx_nsec);
        self.valid.settling = self.slices.settling();
        self.valid
    }

    /// Counts the pending events that were sent 50 ms or more before `newest_tx_nsec`.
    fn release(&mut self, newest_tx_nsec: u64) {
        let Some(limit_nsec) = newest_tx_nsec.checked_sub(COOL_DOWN_NSEC) else {
            return;
        };
        while let Some(&oldest) = self
            .pending
            .front()
            .filter(|event| event.tx_nsec <= limit_nsec)
        {
            self.valid.record(oldest);
            self.pending.pop_front();
        }
    }
}

impl Window {
    /// What counts in a test with these options.
    pub fn of(options: &ClientOptions) -> Self {
        match options.length {
            TestLength::TimeSec(_) => Self::AfterWarmUp {
                warm_up_nsec: u64::from(options.warm_up_msec) * 1_000_000,
            },
            TestLength::Packets(packets) => Self::Packets(u64::from(packets)),
            TestLength::TimeLine => Self::Everything,
        }
    }
}

impl Valid {
    /// From the first message that counts to the last reply (or the last message, if it was
    /// dropped).
    pub fn run_time_nsec(&self) -> u64 {
        self.last_end_nsec.saturating_sub(self.first_tx_nsec)
    }

    /// Adds what another thread measured at the same time.
    pub fn add(&mut self, other: Self) {
        if self.sent == 0 || (other.sent > 0 && other.first_tx_nsec < self.first_tx_nsec) {
            self.first_tx_nsec = other.first_tx_nsec;
        }
        self.last_end_nsec = self.last_end_nsec.max(other.last_end_nsec);
        self.sent += other.sent;
        self.dropped += other.dropped;
        self.out_of_order += other.out_of_order;
        self.round_trips.add(&other.round_trips);
        if let (Some(corrected), Some(other)) = (&mut self.corrected, &other.corrected) {
            corrected.add(other);
        }
        if let (Some(bins), Some(other)) = (&mut self.bins, &other.bins) {
            bins.add(other);
        }
        if let (Some(log), Some(other)) = (&mut self.log, other.log) {
            log.add(other);
        }
        // The later one: until then the sum was not settled.
        let later = |it: &Option<Settling>| it.map_or(0.0, |it| it.settled_after_sec);
        if later(&other.settling) > later(&self.settling) {
            self.settling = other.settling;
        }
    }

    fn record(&mut self, event: Event) {
        if self.sent == 0 {
            self.first_tx_nsec = event.tx_nsec;
        }
        self.sent += 1;
        match event.outcome {
            Outcome::Received(rtt_nsec) => {
                self.last_end_nsec = self
                    .last_end_nsec
                    .max(event.tx_nsec.saturating_add(rtt_nsec));
                self.round_trips.record(rtt_nsec);
                if let Some(corrected) = &mut self.corrected {
                    let lag_nsec = event.lag_nsec.saturating_mul(self.lag_factor);
                    corrected.record(rtt_nsec.saturating_add(lag_nsec));
                }
                if let Some(bins) = &mut self.bins {
                    bins.record(rtt_nsec);
                }
                if let Some(log) = &mut self.log {
                    log.record(event.tx_nsec, rtt_nsec);
                }
            }
            Outcome::OutOfOrder => self.out_of_order += 1,
            Outcome::Dropped => {
                self.dropped += 1;
                self.last_end_nsec = self.last_end_nsec.max(event.tx_nsec);
            }
        }
    }
}

/// Room for 50 ms at 5.2 million messages a second.
const PENDING_CAPACITY: usize = 1 << 18;

#[cfg(test)]
mod tests;
