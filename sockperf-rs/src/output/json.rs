//! The JSON document of `--json`.
//!
//! Names end with their unit. Fields may be added; a field that is removed or changes its meaning
//! gets a new number in `schema`.

use serde::Serialize;

use crate::client::rates::RateResult;
use crate::client::replies::Replies;
use crate::client::run::{End, Run, Sending};
use crate::measure::bins::Row;
use crate::measure::environment::Disturbance;
use crate::measure::host::Host;
use crate::measure::intervals::Interval;
use crate::measure::offload::Offload;
use crate::measure::round_trips::RoundTrips;
use crate::measure::settling::Settling;
use crate::measure::statistics::{Percentiles, Statistics};
use crate::options::Options;
use crate::output::report;
use crate::server::Totals;
use crate::sys::clock::Clock;

/// Everything about one run.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    version: &'static str,
    mode: crate::options::Mode,
    options: &'a Options,
    host: Host,
    clock: ClockFacts,
    /// What disturbed the process while it measured.
    disturbance: Disturbance,
    /// Absent without libvma.
    libvma: Option<Offload>,
    result: RunResult<'a>,
    intervals: Vec<Interval>,
}

/// The part that depends on the mode.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum RunResult<'a> {
    /// `server`
    Server(&'a Totals),
    /// A test that measures latency.
    Latency(LatencyResult<'a>),
    /// `throughput`
    Throughput(ThroughputResult),
    /// Many rates.
    Rates {
        /// In the order of testing.
        rates: &'a [RateResult],
        /// Messages per second; absent when there is no such rate.
        highest_loss_free_per_sec: Option<u32>,
    },
}

/// Result of a test that measures latency.
#[derive(Debug, Serialize)]
pub struct LatencyResult<'a> {
    end: End,
    total: Total,
    valid: Valid,
    replies: Replies,
    send_retries: u64,
    skipped_messages: u64,
    rate_too_high: bool,
    /// `latency` (half the round trip) or `rtt`.
    quantity: &'static str,
    /// Absent when nothing counted.
    statistics: Option<&'a Statistics>,
    /// Counted from when messages should have been sent; absent without a schedule.
    corrected: Option<Corrected>,
    histogram: Option<Vec<HistogramRow>>,
    /// When the latency settled; absent if the test was too short, or has no warm-up time.
    settling: Option<Settling>,
}

/// Result of a throughput test.
#[derive(Debug, Serialize)]
pub struct ThroughputResult {
    end: End,
    run_time_sec: f64,
    sent_messages: u64,
    sent_bytes: u64,
    skipped_messages: u64,
    send_retries: u64,
    rate_too_high: bool,
    messages_per_sec: f64,
    bandwidth_mbytes_per_sec: f64,
    bandwidth_mbits_per_sec: f64,
    /// Absent unless messages were sent back.
    returned: Option<Returned>,
}

/// What came back of a throughput test in both directions.
#[derive(Debug, Serialize)]
struct Returned {
    received_messages: u64,
    received_bytes: u64,
    messages_per_sec: f64,
    missing_messages: u64,
}

#[derive(Debug, Serialize)]
struct Corrected {
    mean_usec: f64,
    max_usec: f64,
    percentiles_usec: Percentiles,
}

#[derive(Debug, Serialize)]
struct ClockFacts {
    source: &'static str,
    reading_cost_nsec: f64,
}

#[derive(Debug, Serialize)]
struct Total {
    run_time_sec: f64,
    sent_messages: u64,
    received_messages: u64,
}

#[derive(Debug, Serialize)]
struct Valid {
    run_time_sec: f64,
    sent_messages: u64,
    received_messages: u64,
    dropped: u64,
    out_of_order: u64,
}

#[derive(Debug, Serialize)]
struct HistogramRow {
    from_usec: u64,
    to_usec: u64,
    count: u64,
    outlier: bool,
}

/// What stands beside the result.
#[derive(Debug, Default)]
pub struct Circumstances {
    /// What disturbed the process while it measured.
    pub disturbance: Disturbance,
    /// What libvma did, if it is loaded.
    pub offload: Option<Offload>,
    /// The reports of intervals.
    pub intervals: Vec<Interval>,
}

impl<'a> Document<'a> {
    /// Collects the facts about machine and clock.
    pub fn new(
        options: &'a Options,
        clock: &Clock,
        result: RunResult<'a>,
        circumstances: Circumstances,
    ) -> Self {
        Self {
            schema: "sockperf-rs/1",
            version: env!("CARGO_PKG_VERSION"),
            mode: options.mode(),
            options,
            host: Host::observe(),
            clock: ClockFacts {
                source: clock.name(),
                reading_cost_nsec: clock.cost_nsec(),
            },
            disturbance: circumstances.disturbance,
            libvma: circumstances.offload,
            result,
            intervals: circumstances.intervals,
        }
    }

    /// The document as text, ending with a line break.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

impl<'a> LatencyResult<'a> {
    /// The result of `run`.
    pub fn new(
        run: &Run,
        full_rtt: bool,
        statistics: Option<&'a Statistics>,
        rows: Option<&[Row]>,
    ) -> Self {
        let corrected = run.valid.corrected.as_ref();
        Self {
            end: run.sending.end,
            total: Total {
                run_time_sec: report::sec(run.sending.run_time_nsec),
                sent_messages: run.sending.sent,
                received_messages: run.replies.received,
            },
            valid: Valid {
                run_time_sec: report::sec(run.valid.run_time_nsec()),
                sent_messages: run.valid.sent,
                received_messages: run.valid.round_trips.count,
                dropped: run.valid.dropped,
                out_of_order: run.valid.out_of_order,
            },
            replies: run.replies,
            send_retries: run.sending.send_retries,
            skipped_messages: run.sending.skipped,
            rate_too_high: run.sending.rate_too_high,
            quantity: if full_rtt { "rtt" } else { "latency" },
            statistics,
            corrected: corrected.and_then(|times| Corrected::new(times, full_rtt)),
            histogram: rows.map(|rows| rows.iter().map(HistogramRow::new).collect()),
            settling: run.valid.settling,
        }
    }
}

impl Corrected {
    fn new(times: &RoundTrips, full_rtt: bool) -> Option<Self> {
        let statistics = Statistics::new(times, full_rtt, 99)?;
        Some(Self {
            mean_usec: statistics.mean_usec,
            max_usec: statistics.max_usec,
            percentiles_usec: statistics.percentiles_usec,
        })
    }
}

impl ThroughputResult {
    /// The result of `run`.
    pub fn new(run: &Sending, returned: Option<&Replies>) -> Self {
        let bandwidth_mbytes_per_sec = report::bandwidth_mbytes_per_sec(run);
        Self {
            end: run.end,
            run_time_sec: report::sec(run.run_time_nsec),
            sent_messages: run.sent,
            sent_bytes: run.sent_bytes,
            skipped_messages: run.skipped,
            send_retries: run.send_retries,
            rate_too_high: run.rate_too_high,
            messages_per_sec: run.message_rate(),
            bandwidth_mbytes_per_sec,
            bandwidth_mbits_per_sec: bandwidth_mbytes_per_sec * 8.0,
            returned: returned.map(|replies| Returned {
                received_messages: replies.received,
                received_bytes: replies.received_bytes,
                messages_per_sec: replies.received as f64
                    / report::sec(run.run_time_nsec).max(1e-9),
                missing_messages: run.sent.saturating_sub(replies.received),
            }),
        }
    }
}

impl HistogramRow {
    fn new(row: &Row) -> Self {
        let Row {
            from_usec,
            to_usec,
            count,
            is_outlier,
        } = *row;
        Self {
            from_usec,
            to_usec,
            count,
            outlier: is_outlier,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::output::report::tests::{pp_options, sample_run};

    #[test]
    fn document_of_ping_pong_has_all_parts() {
        let pp = pp_options("-t 2 --timeout 250 --histogram 1:0:20 --json -");
        let run = sample_run(&pp);
        let statistics = Statistics::new(&run.valid.round_trips, false, 99).unwrap();
        let rows = run
            .valid
            .bins
            .as_ref()
            .map(|bins| bins.rows(10_000, 11_980))
            .unwrap();
        let result = LatencyResult::new(&run, false, Some(&statistics), Some(&rows));
        let options = Options::Client(pp);
        let document = Document::new(
            &options,
            &Clock::monotonic(),
            RunResult::Latency(result),
            Circumstances::default(),
        );
        let json: Value = serde_json::from_str(&document.to_text().unwrap()).unwrap();
        assert_eq!(json["schema"], "sockperf-rs/1");
        assert_eq!(json["mode"], "ping-pong");
        assert_eq!(json["options"]["timeout_msec"], 250);
        assert_eq!(json["options"]["length"]["time_sec"], 2);
        assert_eq!(json["options"]["message_len"], 14);
        assert_eq!(json["clock"]["source"], "monotonic");
        assert!(
            json["host"]["kernel"]
                .as_str()
                .unwrap()
                .starts_with("Linux")
        );
        let result = &json["result"];
        assert_eq!(result["end"], "timer");
        assert_eq!(result["total"]["sent_messages"], 9100);
        assert_eq!(result["valid"]["dropped"], 0);
        assert_eq!(result["replies"]["late"], 0);
        assert_eq!(result["quantity"], "latency");
        assert_eq!(result["statistics"]["observations"], 100);
        for key in [
            "p25", "p50", "p75", "p90", "p99", "p99.9", "p99.99", "p99.999",
        ] {
            assert!(
                result["statistics"]["percentiles_usec"][key].is_f64(),
                "{key}"
            );
        }
        assert_eq!(result["histogram"][0]["from_usec"], 5);
        assert_eq!(result["histogram"][0]["count"], 100);
    }

    #[test]
    fn document_without_observations_says_so() {
        let pp = pp_options("");
        let run = sample_run(&pp);
        let result = LatencyResult::new(&run, true, None, None);
        let options = Options::Client(pp);
        let document = Document::new(
            &options,
            &Clock::monotonic(),
            RunResult::Latency(result),
            Circumstances::default(),
        );
        let json: Value = serde_json::from_str(&document.to_text().unwrap()).unwrap();
        assert!(json["result"]["statistics"].is_null());
        assert_eq!(json["result"]["quantity"], "rtt");
    }
}
