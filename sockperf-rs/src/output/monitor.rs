//! Watches a test from a thread of its own and reports every interval.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::measure::intervals::{Collector, Interval, IntervalData, Progress};
use crate::output::hlog::Hlog;
use crate::terminal::Output;

/// Where reports go.
#[derive(Debug, Default)]
pub struct Sinks {
    /// A line each.
    pub text: Option<Output>,
    /// A row each.
    pub csv: Option<BufWriter<File>>,
    /// A histogram each.
    pub hlog: Option<Hlog>,
    /// One line on the standard error, again and again.
    pub ticker: bool,
    /// A picture each.
    pub live: Option<crate::output::live::Live>,
}

/// How often there is a report, and of what.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Length of an interval.
    pub interval: Duration,
    /// Report round trips instead of half of them.
    pub full_rtt: bool,
}

/// Reports what the threads of a test do, until `end` says that the test is over, and returns all
/// reports.
pub fn watch(
    plan: Plan,
    progress: &[Progress],
    collectors: &[Collector],
    sinks: &mut Sinks,
    end: &Receiver<()>,
) -> Vec<Interval> {
    let start = Instant::now();
    let mut history = History::new();
    let mut last = Totals::default();
    let mut last_sec = 0.0;
    let mut next = plan.interval;
    loop {
        let is_over = match end.recv_timeout(next.saturating_sub(start.elapsed())) {
            Err(RecvTimeoutError::Timeout) => false,
            Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
        };
        let now_sec = start.elapsed().as_secs_f64();
        let totals = Totals::read(progress);
        let mut interval = totals.since(&last, last_sec, now_sec);
        // At the end, the time is also that of waiting for the last replies: a part of an interval
        // would look like a slower one.
        let is_whole = !is_over || history.intervals.is_empty();
        if is_whole {
            let patience = if is_over {
                Duration::ZERO
            } else {
                (plan.interval / 4).min(Duration::from_millis(100))
            };
            if let Some((collector, data)) = collect(collectors, patience) {
                interval.add(&data, plan.full_rtt);
                sinks.log(&interval, &data);
                collector.give_back(data);
            }
            sinks.report(&interval);
            history.push(interval);
        }
        if is_over {
            sinks.finish();
            return history.intervals;
        }
        (last, last_sec) = (totals, now_sec);
        // After a long pause of the machine, one report stands for several intervals.
        while next <= start.elapsed() {
            next += plan.interval;
        }
    }
}

/// What all threads have recorded, and whose memory it is.
fn collect(
    collectors: &[Collector],
    patience: Duration,
) -> Option<(&Collector, Box<IntervalData>)> {
    collectors.iter().for_each(Collector::request);
    let start = Instant::now();
    let mut sum: Option<(&Collector, Box<IntervalData>)> = None;
    for collector in collectors {
        let Some(data) = collector.receive(patience.saturating_sub(start.elapsed())) else {
            continue;
        };
        match &mut sum {
            None => sum = Some((collector, data)),
            Some((_, sum)) => {
                sum.add(&data);
                collector.give_back(data);
            }
        }
    }
    sum
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    sent_bytes: u64,
    received: u64,
}

impl Totals {
    fn read(progress: &[Progress]) -> Self {
        let sum = |counter: fn(&Progress) -> &AtomicU64| {
            let values = progress.iter().map(counter);
            values.map(|counter| counter.load(Ordering::Relaxed)).sum()
        };
        Self {
            sent: sum(|it| &it.sent),
            sent_bytes: sum(|it| &it.sent_bytes),
            received: sum(|it| &it.received),
        }
    }

    fn since(&self, earlier: &Self, start_sec: f64, end_sec: f64) -> Interval {
        Interval {
            start_sec,
            end_sec,
            sent: self.sent - earlier.sent,
            sent_bytes: self.sent_bytes - earlier.sent_bytes,
            received: self.received - earlier.received,
            dropped: 0,
            out_of_order: 0,
            latency: None,
        }
    }
}

/// All intervals, up to a number; of a longer test, the latest.
#[derive(Debug)]
struct History {
    intervals: Vec<Interval>,
}

impl History {
    /// A day of seconds: 10 MB.
    const INTERVALS_MAX: usize = 86_400;

    /// Memory that nothing is written to costs nothing; growing would copy.
    fn new() -> Self {
        Self {
            intervals: Vec::with_capacity(Self::INTERVALS_MAX),
        }
    }

    fn push(&mut self, interval: Interval) {
        if self.intervals.len() == Self::INTERVALS_MAX {
            self.intervals.drain(..Self::INTERVALS_MAX / 2);
        }
        self.intervals.push(interval);
    }
}

impl Sinks {
    /// Writes the heading of the CSV file.
    pub fn begin(&mut self, full_rtt: bool) -> Result<(), Error> {
        let quantity = if full_rtt { "rtt" } else { "latency" };
        if let Some(csv) = &mut self.csv {
            writeln!(
                csv,
                "start_sec,end_sec,sent,sent_bytes,received,dropped,out_of_order,samples,\
                 {quantity}_mean_usec,{quantity}_p50_usec,{quantity}_p90_usec,{quantity}_p99_usec,\
                 {quantity}_p999_usec,{quantity}_max_usec"
            )
            .map_err(|error| Error::setup("cannot write the CSV file", error))?;
        }
        Ok(())
    }

    fn report(&mut self, interval: &Interval) {
        if let Some(output) = &mut self.text {
            output.write(&line(interval));
        }
        if let Some(csv) = &mut self.csv {
            // A disk that is full does not end the test.
            writeln!(csv, "{}", row(interval)).ok();
        }
        if self.ticker {
            tick(&format!("\r{}\x1b[K", line(interval).trim_end()));
        }
        if let Some(live) = &mut self.live {
            live.show(interval);
        }
    }

    fn log(&mut self, interval: &Interval, data: &IntervalData) {
        if let (Some(hlog), Some(_)) = (&mut self.hlog, interval.latency) {
            // As above.
            hlog.add(interval, data).ok();
        }
    }

    fn finish(&mut self) {
        if let Some(hlog) = &mut self.hlog
            && let Err(error) = hlog.flush()
        {
            crate::error::complain(format_args!("WARNING: cannot write the log: {error}"));
        }
        if let Some(csv) = &mut self.csv
            && let Err(error) = csv.flush()
        {
            crate::error::complain(format_args!("WARNING: cannot write the CSV file: {error}"));
        }
        if self.ticker {
            tick("\r\x1b[K");
        }
        self.live = None;
    }
}

/// A terminal that goes away does not end the test.
fn tick(text: &str) {
    let mut stderr = io::stderr();
    stderr.write_all(text.as_bytes()).ok();
}

/// `[  1.00-  2.00 sec] 396077 [msg/s] 5.288 MBps; dropped = 0; p50 = 9.7; p99 = 52.5; max = 107.4`
pub fn line(interval: &Interval) -> String {
    let mut text = format!(
        "sockperf: [{:7.2} -{:7.2} sec] {:>8.0} [msg/s] {:9.3} MBps",
        interval.start_sec,
        interval.end_sec,
        interval.rate(),
        interval.sent_bytes as f64 / interval.duration_sec() / f64::from(1u32 << 20),
    );
    if let Some(latency) = interval.latency {
        text += &format!(
            "; dropped = {}; p50 = {:.3}; p99 = {:.3}; p99.9 = {:.3}; max = {:.3}",
            interval.dropped,
            latency.p50_usec,
            latency.p99_usec,
            latency.p999_usec,
            latency.max_usec
        );
    } else if interval.dropped > 0 {
        text += &format!("; dropped = {}", interval.dropped);
    }
    text + "\n"
}

fn row(interval: &Interval) -> String {
    let latency = interval.latency.map_or_else(
        || "0,,,,,,".to_owned(),
        |it| {
            format!(
                "{},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3}",
                it.count,
                it.mean_usec,
                it.p50_usec,
                it.p90_usec,
                it.p99_usec,
                it.p999_usec,
                it.max_usec
            )
        },
    );
    format!(
        "{:.3},{:.3},{},{},{},{},{},{latency}",
        interval.start_sec,
        interval.end_sec,
        interval.sent,
        interval.sent_bytes,
        interval.received,
        interval.dropped,
        interval.out_of_order
    )
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::measure::intervals::IntervalLatency;

    fn interval(latency: Option<IntervalLatency>) -> Interval {
        Interval {
            start_sec: 1.0,
            end_sec: 2.0,
            sent: 1000,
            sent_bytes: 1 << 20,
            received: 990,
            dropped: 10,
            out_of_order: 1,
            latency,
        }
    }

    const LATENCY: IntervalLatency = IntervalLatency {
        count: 989,
        mean_usec: 1.0,
        p50_usec: 2.0,
        p90_usec: 3.0,
        p99_usec: 4.0,
        p999_usec: 5.0,
        max_usec: 6.0,
    };

    #[test]
    fn a_line_and_a_row() {
        assert_eq!(
            line(&interval(Some(LATENCY))),
            "sockperf: [   1.00 -   2.00 sec]     1000 [msg/s]     1.000 MBps; dropped = 10; \
             p50 = 2.000; p99 = 4.000; p99.9 = 5.000; max = 6.000\n"
        );
        assert_eq!(
            row(&interval(Some(LATENCY))),
            "1.000,2.000,1000,1048576,990,10,1,989,1.000,2.000,3.000,4.000,5.000,6.000"
        );
        let (with, without) = (row(&interval(Some(LATENCY))), row(&interval(None)));
        assert_eq!(with.matches(',').count(), without.matches(',').count());
    }

    #[test]
    fn every_interval_is_reported_and_counted_once() {
        let progress = [Progress::default()];
        let (end_tx, end) = mpsc::channel();
        let plan = Plan {
            interval: Duration::from_millis(20),
            full_rtt: false,
        };
        let reports = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let end = end;
                watch(plan, &progress, &[], &mut Sinks::default(), &end)
            });
            for sent in 1..=10 {
                progress[0].sent.store(sent, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
            drop(end_tx);
            watcher.join().unwrap()
        });
        assert!(reports.len() >= 2, "{reports:?}");
        let sent: u64 = reports.iter().map(|report| report.sent).sum();
        assert!((9..=10).contains(&sent), "{reports:?}");
        for pair in reports.windows(2) {
            assert_eq!(pair[0].end_sec, pair[1].start_sec);
        }
    }

    #[test]
    fn history_is_bounded() {
        let mut history = History::new();
        for _ in 0..History::INTERVALS_MAX + 1 {
            history.push(interval(None));
        }
        assert_eq!(history.intervals.len(), History::INTERVALS_MAX / 2 + 1);
        assert_eq!(history.intervals.capacity(), History::INTERVALS_MAX);
    }
}
