//! The test, and beside it the reports of intervals.

use std::io::{self, BufWriter, IsTerminal};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Session;
use super::files::create;
use super::measure::Outcome;
use crate::client::run::Recording;
use crate::client::time_line::TimeLine;
use crate::error::Error;
use crate::measure::environment::{Counters, Disturbance};
use crate::measure::intervals::{self, Collector, Interval, Progress};
use crate::net::open::Endpoint;
use crate::options::{Activity, ClientOptions};
use crate::output::hlog::Hlog;
use crate::output::live::Live;
use crate::output::monitor::{self, Plan, Sinks};
use crate::output::report;
use crate::sys::affinity;

pub(super) type Watched = (Outcome, Disturbance, Vec<Interval>);

impl Session<'_> {
    /// Runs the test, and beside it the reports of intervals.
    pub(super) fn watch(
        &self,
        options: &ClientOptions,
        shares: &[Vec<Endpoint>],
        before: &Counters,
        line: Option<&TimeLine>,
    ) -> Result<Watched, Error> {
        let results = &options.results;
        let is_wanted = results.interval_msec.is_some()
            || results.csv.is_some()
            || results.hlog.is_some()
            || results.live
            || results.html.is_some()
            || options.common.json.is_some()
            || self.has_ticker(options);
        let progress: Vec<Progress> = shares.iter().map(|_| Progress::default()).collect();
        let progress = progress.as_slice();
        let run = |recordings| {
            let outcome = self.measure(options, shares, (progress, recordings), line);
            outcome.map(|outcome| (outcome, Counters::read().since(before)))
        };
        if !is_wanted {
            let recordings = shares.iter().map(|_| Recording::default()).collect();
            let (outcome, disturbance) = run(recordings)?;
            return Ok((outcome, disturbance, Vec::new()));
        }
        let mut sinks = self.sinks(options)?;
        let plan = Plan {
            interval: Duration::from_millis(u64::from(results.interval_msec.unwrap_or(1000))),
            full_rtt: results.full_rtt,
        };
        let (recordings, collectors) = recordings(options, shares.len())?;
        let (end_tx, end) = mpsc::channel();
        thread::scope(|scope| {
            let cpus = &self.cpus;
            let watcher = scope.spawn(move || {
                // Not on the CPU that the measuring thread is pinned to; where that fails, it is.
                affinity::pin_current_thread(cpus).ok();
                monitor::watch(plan, progress, &collectors, &mut sinks, &end)
            });
            let outcome = run(recordings);
            // The watcher waits for this.
            drop(end_tx);
            let intervals = watcher.join().unwrap_or_default();
            outcome.map(|(outcome, disturbance)| (outcome, disturbance, intervals))
        })
    }

    /// Whether somebody watches who is not shown anything else.
    fn has_ticker(&self, options: &ClientOptions) -> bool {
        io::stdout().is_terminal()
            && io::stderr().is_terminal()
            && !self.output.style().strict
            && options.common.activity == Activity::Off
            && options.results.interval_msec.is_none()
            && !options.results.live
    }

    fn sinks(&self, options: &ClientOptions) -> Result<Sinks, Error> {
        let results = &options.results;
        let csv = results.csv.as_deref().map(create).transpose()?;
        let hlog = results.hlog.as_deref().map(create).transpose()?;
        let hlog = hlog.map(|file| {
            Hlog::begin(BufWriter::new(file), results.full_rtt)
                .map_err(|error| Error::setup("cannot write the log of histograms", error))
        });
        let live = results.live.then(|| Live::open(report::title(options)));
        let mut sinks = Sinks {
            text: (results.interval_msec.is_some() && !results.live).then(|| self.output.clone()),
            csv: csv.map(BufWriter::new),
            hlog: hlog.transpose()?,
            ticker: self.has_ticker(options),
            live: live.transpose()?,
        };
        sinks.begin(results.full_rtt)?;
        Ok(sinks)
    }
}

/// What records in each thread, and the monitor's ends of it.
fn recordings(
    options: &ClientOptions,
    threads: usize,
) -> Result<(Vec<Recording>, Vec<Collector>), Error> {
    if !options.mode.measures_latency() {
        return Ok((
            (0..threads).map(|_| Recording::default()).collect(),
            Vec::new(),
        ));
    }
    let mut ends = (Vec::new(), Vec::new());
    for _ in 0..threads {
        let (tap, collector) = intervals::pair()?;
        ends.0.push(Recording { tap: Some(tap) });
        ends.1.push(collector);
    }
    Ok(ends)
}
