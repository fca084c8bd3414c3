//! Cutting the measurement window out of a stream of round trips, in constant memory.
//!
//! What is sent in the first 400 ms (caches, routes and frequency settle) and in the last 50 ms
//! (the client's own end) does not count. Where the last 50 ms begin is known only at the end, so
//! every event waits in a delay line until it is certain to be older than that.

use std::collections::VecDeque;

use hdrhistogram::Histogram;

use crate::bins::Bins;
use crate::error::Error;
use crate::intervals::Tap;
use crate::options::{ClientOptions, TestLength};

/// What is sent this soon after the first message does not count.
pub const WARM_UP_NSEC: u64 = 400_000_000;
/// What is sent this shortly before the last message does not count.
pub const COOL_DOWN_NSEC: u64 = 50_000_000;
/// With a number of packets instead of a time, this many messages at the start do not count.
pub const WARM_UP_PACKETS: u64 = 8000;
/// With a number of packets, this many more messages are sent after the ones that count.
pub const COOL_DOWN_PACKETS: u64 = 1000;

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was sent.
    pub tx_nsec: u64,
    /// How much later than planned it was sent.
    pub lag_nsec: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How one message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply came after this many nanoseconds.
    Received(u64),
    /// The reply came before the reply to an earlier message; it is not a sample.
    OutOfOrder,
    /// No reply came in time.
    Dropped,
}

/// Which messages count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// All but the first 400 ms and the last 50 ms.
    Time,
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
    /// The same, counted from when the message should have been sent: what a client sees that does not
    /// wait for a slow server. Only where there is a plan.
    pub corrected: Option<RoundTrips>,
    /// The bins of `--histogram`.
    pub bins: Option<Bins>,
    /// The samples of `--full-log`.
    pub log: Option<SampleLog>,
    first_tx_nsec: u64,
    last_end_nsec: u64,
    lag_factor: u64,
}

/// Round-trip times: exact sums and extremes, and a histogram with a resolution of 1:10000.
#[derive(Debug)]
pub struct RoundTrips {
    /// All times, in nanoseconds.
    pub histogram: Histogram<u64>,
    /// Number of samples.
    pub count: u64,
    /// Sum of the times.
    pub sum_nsec: u128,
    /// Sum of the squares of the times.
    pub sum_nsec_squared: u128,
    /// Shortest time.
    pub min_nsec: u64,
    /// Longest time.
    pub max_nsec: u64,
}

/// Individual samples, up to a number that is reserved at the start.
#[derive(Debug)]
pub struct SampleLog {
    /// Time of sending and round-trip time.
    pub samples: Vec<(u64, u64)>,
    /// Samples for which there was no room.
    pub omitted: u64,
}

impl Recorder {
    /// A recorder with the optional bins and sample log filled in.
    pub fn new(window: Window, bins: Option<Bins>, log: Option<SampleLog>) -> Result<Self, Error> {
        Ok(Self {
            window,
            first_tx_nsec: None,
            seen: 0,
            pending: VecDeque::with_capacity(match window {
                Window::Time => PENDING_CAPACITY,
                Window::Packets(_) | Window::Everything => 0,
            }),
            tap: None,
            valid: Valid {
                sent: 0,
                dropped: 0,
                out_of_order: 0,
                round_trips: RoundTrips::new()?,
                corrected: None,
                bins,
                log,
                first_tx_nsec: 0,
                last_end_nsec: 0,
                lag_factor: 1,
            },
        })
    }

    /// Also keeps the times counted from when the messages should have been sent.
    ///
    /// Latency is half the round trip, but all of the lag: `lag_factor` is 2 where times will be halved.
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
            Window::Time => {
                let first_tx_nsec = *self.first_tx_nsec.get_or_insert(event.tx_nsec);
                if event.tx_nsec < first_tx_nsec.saturating_add(WARM_UP_NSEC) {
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
    /// What counts in a test of this length.
    pub fn of(length: TestLength) -> Self {
        match length {
            TestLength::TimeSec(_) => Self::Time,
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

impl RoundTrips {
    /// No samples.
    pub fn new() -> Result<Self, Error> {
        Ok(Self {
            histogram: Self::histogram(SIGNIFICANT_DIGITS)?,
            count: 0,
            sum_nsec: 0,
            sum_nsec_squared: 0,
            min_nsec: u64::MAX,
            max_nsec: 0,
        })
    }

    /// An empty histogram of nanoseconds.
    pub fn histogram(significant_digits: u8) -> Result<Histogram<u64>, Error> {
        Histogram::new_with_max(LONGEST_NSEC, significant_digits)
            .map_err(|error| Error::NoResult(format!("cannot make the histogram: {error}")))
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, rtt_nsec: u64) {
        self.histogram.saturating_record(rtt_nsec);
        self.count += 1;
        self.sum_nsec += u128::from(rtt_nsec);
        self.sum_nsec_squared = self
            .sum_nsec_squared
            .saturating_add(u128::from(rtt_nsec) * u128::from(rtt_nsec));
        self.min_nsec = self.min_nsec.min(rtt_nsec);
        self.max_nsec = self.max_nsec.max(rtt_nsec);
    }
}

impl SampleLog {
    /// The most samples a test can have: what was asked for, or a million a second.
    pub fn capacity_for(options: &ClientOptions) -> u64 {
        const MOST_PER_SECOND: u32 = 1_000_000;
        match options.length {
            TestLength::Packets(packets) => u64::from(packets),
            TestLength::TimeSec(time_sec) => {
                let rate = u64::from(options.messages_per_second.unwrap_or(MOST_PER_SECOND));
                let replies = rate / u64::from(options.reply_every.max(1)) + 1;
                u64::from(time_sec) * replies + u64::from(options.burst)
            }
            TestLength::TimeLine => 1 << 22,
        }
    }

    /// Reserves room for `capacity` samples, at most 64 Mi (1 GiB, of which only what is used is
    /// touched).
    pub fn with_capacity(capacity: u64) -> Result<Self, Error> {
        let capacity = usize::try_from(capacity).unwrap_or(usize::MAX).min(1 << 26);
        let mut samples = Vec::new();
        samples.try_reserve_exact(capacity).map_err(|error| {
            Error::Usage(format!(
                "no memory for a full log of {capacity} samples ({error}); use a shorter test"
            ))
        })?;
        Ok(Self {
            samples,
            omitted: 0,
        })
    }

    #[inline]
    fn record(&mut self, tx_nsec: u64, rtt_nsec: u64) {
        if self.samples.len() < self.samples.capacity() {
            self.samples.push((tx_nsec, rtt_nsec));
        } else {
            self.omitted += 1;
        }
    }
}

/// Room for 50 ms at 5.2 million messages a second.
const PENDING_CAPACITY: usize = 1 << 18;
/// Longer times are counted as this long in the percentiles; the maximum stays exact.
const LONGEST_NSEC: u64 = 100_000_000_000;
/// Values below 32.768 us have their own nanosecond, longer ones a resolution of 1:10000 or better.
const SIGNIFICANT_DIGITS: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const MSEC: u64 = 1_000_000;

    fn received(tx_nsec: u64, rtt_nsec: u64) -> Event {
        Event {
            tx_nsec,
            lag_nsec: 1_000_000,
            outcome: Outcome::Received(rtt_nsec),
        }
    }

    #[test]
    fn time_window_cuts_400_msec_and_50_msec() {
        let mut recorder = Recorder::new(Window::Time, None, None).unwrap();
        let start = 7 * MSEC;
        for msec in 0..=1000 {
            recorder.record(received(start + msec * MSEC, 10_000 + msec));
        }
        let valid = recorder.finish(start + 1000 * MSEC);
        // 400, 401, ... 950 ms after the first one.
        assert_eq!(valid.sent, 551);
        assert_eq!(valid.round_trips.min_nsec, 10_400);
        assert_eq!(valid.round_trips.max_nsec, 10_950);
        assert_eq!(valid.run_time_nsec(), 550 * MSEC + 10_950);
    }

    #[test]
    fn time_window_ends_before_an_unanswered_last_message() {
        let mut recorder = Recorder::new(Window::Time, None, None).unwrap();
        for msec in 0..=500 {
            recorder.record(received(msec * MSEC, 1));
        }
        let valid = recorder.finish(530 * MSEC);
        assert_eq!(valid.sent, 81);
    }

    #[test]
    fn short_run_has_no_valid_sample() {
        let mut recorder = Recorder::new(Window::Time, None, None).unwrap();
        for msec in 0..=420 {
            recorder.record(received(msec * MSEC, 1));
        }
        let valid = recorder.finish(420 * MSEC);
        assert_eq!(
            (valid.sent, valid.round_trips.count, valid.run_time_nsec()),
            (0, 0, 0)
        );
    }

    #[test]
    fn packet_window_skips_8000_and_keeps_n() {
        let mut recorder = Recorder::new(Window::Packets(3), None, None).unwrap();
        for index in 0..9003 {
            recorder.record(received(index, index));
        }
        let valid = recorder.finish(9003);
        assert_eq!(valid.sent, 3);
        assert_eq!(
            (valid.round_trips.min_nsec, valid.round_trips.max_nsec),
            (8000, 8002)
        );
    }

    #[test]
    fn losses_and_reordering_are_not_samples() {
        let mut recorder = Recorder::new(Window::Packets(4), None, None).unwrap();
        for index in 0..8000 {
            recorder.record(received(index, 1));
        }
        recorder.record(received(8000, 5));
        recorder.record(Event {
            tx_nsec: 8001,
            lag_nsec: 0,
            outcome: Outcome::OutOfOrder,
        });
        recorder.record(received(8002, 7));
        recorder.record(Event {
            tx_nsec: 9000,
            lag_nsec: 0,
            outcome: Outcome::Dropped,
        });
        let valid = recorder.finish(9000);
        assert_eq!((valid.sent, valid.round_trips.count), (4, 2));
        assert_eq!((valid.dropped, valid.out_of_order), (1, 1));
        assert_eq!(valid.run_time_nsec(), 1000);
    }

    #[test]
    fn corrected_times_count_from_the_plan() {
        let recorder = Recorder::new(Window::Everything, None, None).unwrap();
        let mut recorder = recorder.with_corrected(1).unwrap();
        recorder.record(received(5, 100));
        let valid = recorder.finish(5);
        assert_eq!(valid.round_trips.max_nsec, 100);
        assert_eq!(valid.corrected.unwrap().max_nsec, 1_000_100);
    }

    #[test]
    fn delay_line_is_bounded() {
        let mut recorder = Recorder::new(Window::Time, None, None).unwrap();
        recorder.record(received(0, 1));
        let capacity = recorder.pending.capacity();
        for index in 0..PENDING_CAPACITY as u64 + 10 {
            recorder.record(received(WARM_UP_NSEC + index, 1));
        }
        assert_eq!(recorder.pending.capacity(), capacity);
        assert_eq!(recorder.finish(WARM_UP_NSEC).sent, 10);
    }

    #[test]
    fn log_stops_at_its_capacity() {
        let log = SampleLog::with_capacity(2).unwrap();
        let mut recorder = Recorder::new(Window::Packets(5), None, Some(log)).unwrap();
        for index in 0..8005 {
            recorder.record(received(index, 2));
        }
        let log = recorder.finish(9000).log.unwrap();
        assert_eq!(log.samples.len() as u64 + log.omitted, 5);
        assert_eq!(log.samples[..2], [(8000, 2), (8001, 2)]);
    }

    #[test]
    fn very_long_round_trip_is_kept() {
        let mut round_trips = RoundTrips::new().unwrap();
        round_trips.record(u64::MAX / 2);
        assert_eq!(round_trips.max_nsec, u64::MAX / 2);
        assert_eq!(round_trips.histogram.len(), 1);
    }
}
