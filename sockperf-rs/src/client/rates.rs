//! Many rates one after the other (`--sweep`), and the highest one without loss (`--search`).

use serde::Serialize;

use crate::client::run::Run;
use crate::measure::statistics::Sorted;
use crate::options::RatePlan;

/// The result at a rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateResult {
    /// Messages per second, as planned.
    pub planned_per_sec: u32,
    /// Messages per second, as sent.
    pub sent_per_sec: f64,
    /// Messages without the answer that they asked for.
    pub dropped: u64,
    /// Samples.
    pub samples: u64,
    /// Median, microseconds.
    pub p50_usec: f64,
    /// 99th percentile, microseconds.
    pub p99_usec: f64,
    /// 99.9th percentile, microseconds.
    pub p999_usec: f64,
    /// Longest, microseconds.
    pub max_usec: f64,
}

/// Decides which rate is next.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    plan: RatePlan,
    next: Option<u32>,
    good: Option<u32>,
    bad: Option<u32>,
}

impl Rates {
    /// Begins with the lowest.
    pub fn new(plan: RatePlan) -> Self {
        let (RatePlan::Sweep { from, .. } | RatePlan::Search { from, .. }) = plan;
        Self {
            plan,
            next: Some(from),
            good: None,
            bad: None,
        }
    }

    /// The rate to test; `None` at the end.
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Takes the result of the rate that was next.
    pub fn take(&mut self, is_loss_free: bool) {
        let Some(rate) = self.next else {
            return;
        };
        if is_loss_free {
            self.good = self.good.max(Some(rate));
        } else {
            self.bad = Some(self.bad.map_or(rate, |bad| bad.min(rate)));
        }
        self.next = match self.plan {
            RatePlan::Sweep { to, step, .. } => rate.checked_add(step).filter(|&next| next <= to),
            RatePlan::Search { to, .. } => self.search_next(to),
        };
    }

    /// The highest rate without loss so far.
    pub fn highest_loss_free(&self) -> Option<u32> {
        self.good
    }

    fn search_next(&self, to: u32) -> Option<u32> {
        match (self.good, self.bad) {
            (Some(good), None) if good == to => None,
            // The limit is tried second: it may be good.
            (_, None) => Some(to),
            // Even the lowest loses.
            (None, Some(_)) => None,
            (Some(good), Some(bad)) => {
                let distance = bad.saturating_sub(good);
                (distance > (good / 100).max(1)).then(|| good + distance / 2)
            }
        }
    }
}

impl RateResult {
    /// Of a test at a rate.
    pub fn new(planned_per_sec: u32, run: &Run, usec_divisor: f64) -> Self {
        let times = &run.valid.round_trips;
        let sorted = Sorted::new(times);
        let usec = |percent| sorted.percentile_nsec(percent).unwrap_or(0.0) / usec_divisor;
        Self {
            planned_per_sec,
            sent_per_sec: run.sending.message_rate(),
            dropped: run.valid.dropped,
            samples: times.count,
            p50_usec: usec(50.0),
            p99_usec: usec(99.0),
            p999_usec: usec(99.9),
            max_usec: times.max_nsec as f64 / usec_divisor,
        }
    }

    /// Whether all answers came and the rate was kept.
    pub fn is_loss_free(&self) -> bool {
        const KEPT: f64 = 0.99;
        let is_kept = self.sent_per_sec >= f64::from(self.planned_per_sec) * KEPT;
        self.dropped == 0 && self.samples > 0 && is_kept
    }

    /// The heading of the table.
    pub const HEADING: &'static str =
        "  planned/s      sent/s    dropped        p50        p99      p99.9        max [usec]";

    /// A line of the table.
    pub fn line(&self) -> String {
        format!(
            "{:>11} {:>11.0} {:>10} {:>10.3} {:>10.3} {:>10.3} {:>10.3}",
            self.planned_per_sec,
            self.sent_per_sec,
            self.dropped,
            self.p50_usec,
            self.p99_usec,
            self.p999_usec,
            self.max_usec
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates that are tested where loss begins above `limit`, and the answer.
    fn walk(plan: RatePlan, limit: u32) -> (Vec<u32>, Option<u32>) {
        let mut rates = Rates::new(plan);
        let mut tested = Vec::new();
        while let Some(rate) = rates.next() {
            tested.push(rate);
            assert!(tested.len() < 100, "{tested:?}");
            rates.take(rate <= limit);
        }
        (tested, rates.highest_loss_free())
    }

    #[test]
    fn sweep_takes_every_step() {
        let plan = RatePlan::parse_sweep("10:35:10").unwrap();
        assert_eq!(walk(plan, 20), (vec![10, 20, 30], Some(20)));
    }

    #[test]
    fn search_comes_within_one_percent() {
        let plan = RatePlan::parse_search("1000:1000000").unwrap();
        for limit in [1000, 54_321, 999_999] {
            let (tested, found) = walk(plan, limit);
            let found = found.unwrap();
            assert!(
                found <= limit && found >= limit - limit / 90,
                "{limit}: {found}"
            );
            assert!(tested.len() < 25, "{tested:?}");
        }
        assert_eq!(
            walk(plan, 1_000_000),
            (vec![1000, 1_000_000], Some(1_000_000))
        );
        assert_eq!(walk(plan, 5), (vec![1000], None));
    }
}
