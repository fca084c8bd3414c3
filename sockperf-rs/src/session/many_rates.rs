//! A test for each of many rates.

use super::Session;
use super::measure::Outcome;
use crate::client::rates::{RateResult, Rates};
use crate::client::run::Recording;
use crate::client::threads;
use crate::error::Error;
use crate::measure::environment::Counters;
use crate::measure::intervals::Progress;
use crate::measure::offload::Offload;
use crate::options::{ClientOptions, RatePlan};
use crate::output::json::{Circumstances, RunResult};
use crate::output::report;

impl Session<'_> {
    /// Runs a test for each rate of a plan, each with sockets of its own: replies that are still
    /// under way must not be taken for those of the next test.
    pub(super) fn many_rates(
        &mut self,
        options: &ClientOptions,
        plan: RatePlan,
    ) -> Result<(), Error> {
        let before = Counters::read();
        let mut rates = Rates::new(plan);
        let mut results = Vec::new();
        self.output.line(RateResult::HEADING);
        while let Some(rate) = rates.next()
            && !self.stop.is_requested()
        {
            let options = ClientOptions {
                messages_per_second: Some(rate),
                ..options.clone()
            };
            let shares = threads::shares(self.open_endpoints(&options)?, options.threads);
            let progress: Vec<Progress> = shares.iter().map(|_| Progress::default()).collect();
            let recordings = shares.iter().map(|_| Recording::default()).collect();
            let outcome = self.measure(&options, &shares, (&progress, recordings), None)?;
            let Outcome::Latency(run) = outcome else {
                continue;
            };
            let divisor = report::usec_divisor(options.results.full_rtt);
            let result = RateResult::new(rate, &run, divisor);
            self.output.line(result.line());
            rates.take(result.is_loss_free());
            results.push(result);
        }
        let highest = rates.highest_loss_free();
        self.output.line(match highest {
            Some(rate) => format!("Summary: highest rate without loss is {rate} [msg/sec]"),
            None => "Summary: every rate has loss, or is too high for this machine".to_owned(),
        });
        let circumstances = Circumstances {
            disturbance: Counters::read().since(&before),
            offload: Offload::read(),
            intervals: Vec::new(),
        };
        let result = RunResult::Rates {
            rates: &results,
            highest_loss_free_per_sec: highest,
        };
        self.write_json(result, circumstances)?;
        match results.iter().any(|result| result.samples > 0) {
            true => Ok(()),
            false => Err(Error::NoResult(
                "No messages were received from the server. Is the server down?".to_owned(),
            )),
        }
    }
}
