//! Reports of intervals while a test runs.
//!
//! The thread that measures records into data of its own. When the monitor asks for them, the
//! thread hands them over and goes on with empty ones; both only change places, nothing is copied,
//! allocated or waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::error::Error;
use crate::measure::event::{Event, Outcome};
use crate::measure::round_trips::RoundTrips;

/// Counters that the threads of a test keep up to date for the monitor. Each has one writer.
#[derive(Debug, Default)]
pub struct Progress {
    /// Messages sent.
    pub sent: AtomicU64,
    /// Bytes sent.
    pub sent_bytes: AtomicU64,
    /// Replies received.
    pub received: AtomicU64,
}

/// What happened in one interval.
#[derive(Debug)]
pub struct IntervalData {
    histogram: Histogram<u64>,
    dropped: u64,
    out_of_order: u64,
}

/// The measuring thread's end.
#[derive(Debug)]
pub struct Tap {
    requests: Arc<AtomicU32>,
    answered: u32,
    current: Box<IntervalData>,
    full: SyncSender<Box<IntervalData>>,
    empty: Receiver<Box<IntervalData>>,
}

/// The monitor's end.
#[derive(Debug)]
pub struct Collector {
    requests: Arc<AtomicU32>,
    full: Receiver<Box<IntervalData>>,
    empty: SyncSender<Box<IntervalData>>,
}

/// Latency in an interval, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IntervalLatency {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean_usec: f64,
    /// Median.
    pub p50_usec: f64,
    /// 90th percentile.
    pub p90_usec: f64,
    /// 99th percentile.
    pub p99_usec: f64,
    /// 99.9th percentile.
    pub p999_usec: f64,
    /// Longest.
    pub max_usec: f64,
}

/// The report of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// Since the start of the test.
    pub start_sec: f64,
    /// Since the start of the test.
    pub end_sec: f64,
    /// Messages sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Replies received.
    pub received: u64,
    /// Messages that were found to have no reply.
    pub dropped: u64,
    /// Replies that overtook another.
    pub out_of_order: u64,
    /// Absent without samples.
    pub latency: Option<IntervalLatency>,
}

/// Three digits are enough for a line of a report.
const SIGNIFICANT_DIGITS: u8 = 3;

impl IntervalData {
    fn new() -> Result<Box<Self>, Error> {
        Ok(Box::new(Self {
            histogram: RoundTrips::histogram(SIGNIFICANT_DIGITS)?,
            dropped: 0,
            out_of_order: 0,
        }))
    }

    /// The round-trip times.
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Adds what another thread recorded.
    pub fn add(&mut self, other: &Self) {
        // Cannot fail: all of them have the same range.
        self.histogram.add(&other.histogram).ok();
        self.dropped += other.dropped;
        self.out_of_order += other.out_of_order;
    }

    fn clear(&mut self) {
        self.histogram.reset();
        self.dropped = 0;
        self.out_of_order = 0;
    }
}

/// A pair of connected ends.
pub fn pair() -> Result<(Tap, Collector), Error> {
    let requests = Arc::new(AtomicU32::new(0));
    let (full_tx, full) = sync_channel(2);
    let (empty, empty_rx) = sync_channel(2);
    // Cannot fail: there is room and a receiver.
    empty.try_send(IntervalData::new()?).ok();
    let tap = Tap {
        requests: Arc::clone(&requests),
        answered: 0,
        current: IntervalData::new()?,
        full: full_tx,
        empty: empty_rx,
    };
    Ok((
        tap,
        Collector {
            requests,
            full,
            empty,
        },
    ))
}

impl Tap {
    /// Takes the next event.
    #[inline]
    pub fn record(&mut self, event: &Event) {
        match event.outcome {
            Outcome::Received(rtt_nsec) => self.current.histogram.saturating_record(rtt_nsec),
            Outcome::OutOfOrder => self.current.out_of_order += 1,
            Outcome::Dropped => self.current.dropped += 1,
        }
        let requested = self.requests.load(Ordering::Relaxed);
        if requested != self.answered {
            self.answer(requested);
        }
    }

    #[cold]
    fn answer(&mut self, requested: u32) {
        // Without an empty one the data stay here and are handed over with the next request.
        if let Ok(empty) = self.empty.try_recv() {
            let full = std::mem::replace(&mut self.current, empty);
            self.full.try_send(full).ok();
        }
        self.answered = requested;
    }
}

impl Collector {
    /// Asks for the data since the last request.
    pub fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// What was asked for; `None` if the thread has had nothing to record for `patience`. Then it
    /// hands over what it has with its next event.
    pub fn receive(&self, patience: Duration) -> Option<Box<IntervalData>> {
        self.full.recv_timeout(patience).ok()
    }

    /// Gives the data's memory back.
    pub fn give_back(&self, mut data: Box<IntervalData>) {
        data.clear();
        self.empty.try_send(data).ok();
    }
}

impl Interval {
    /// Adds what the measuring thread recorded; times are halved unless `full_rtt`.
    pub fn add(&mut self, data: &IntervalData, full_rtt: bool) {
        self.dropped = data.dropped;
        self.out_of_order = data.out_of_order;
        let usec_per_nsec = if full_rtt { 1e-3 } else { 0.5e-3 };
        let histogram = &data.histogram;
        let usec = |quantile| histogram.value_at_quantile(quantile) as f64 * usec_per_nsec;
        self.latency = (!histogram.is_empty()).then(|| IntervalLatency {
            count: histogram.len(),
            mean_usec: histogram.mean() * usec_per_nsec,
            p50_usec: usec(0.5),
            p90_usec: usec(0.9),
            p99_usec: usec(0.99),
            p999_usec: usec(0.999),
            max_usec: histogram.max() as f64 * usec_per_nsec,
        });
    }

    /// Messages sent per second.
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.duration_sec()
    }

    /// Its length.
    pub fn duration_sec(&self) -> f64 {
        (self.end_sec - self.start_sec).max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(outcome: Outcome) -> Event {
        Event {
            tx_nsec: 1,
            lag_nsec: 0,
            outcome,
        }
    }

    #[test]
    fn data_change_hands_on_request() {
        let (mut tap, collector) = pair().unwrap();
        let no_patience = Duration::ZERO;
        let collect = || {
            collector.request();
            collector.receive(no_patience)
        };
        assert!(collect().is_none());
        for outcome in [Outcome::Received(2000), Outcome::Dropped] {
            tap.record(&event(outcome));
        }
        tap.record(&event(Outcome::OutOfOrder));
        let data = collect().unwrap();
        // The first event answered the first request.
        assert_eq!((data.histogram.len(), data.dropped), (1, 0));
        collector.give_back(data);
        tap.record(&event(Outcome::Received(4000)));
        let data = collect().unwrap();
        let mut interval = Interval {
            start_sec: 1.0,
            end_sec: 1.5,
            sent: 10,
            sent_bytes: 140,
            received: 1,
            dropped: 0,
            out_of_order: 0,
            latency: None,
        };
        interval.add(&data, false);
        assert_eq!((interval.dropped, interval.out_of_order), (1, 1));
        assert_eq!(interval.latency.unwrap().count, 1);
        assert!((interval.latency.unwrap().p50_usec - 2.0).abs() < 0.01);
        assert_eq!(interval.rate(), 20.0);
    }

    #[test]
    fn data_nobody_takes_are_kept() {
        let (mut tap, collector) = pair().unwrap();
        for _ in 0..5 {
            collector.requests.fetch_add(1, Ordering::Relaxed);
            tap.record(&event(Outcome::Received(1)));
        }
        let mut total = 0;
        while let Some(data) = collector.receive(Duration::ZERO) {
            total += data.histogram.len();
        }
        // One went at the first request; the others wait for an empty place.
        assert_eq!(total, 1);
    }
}
