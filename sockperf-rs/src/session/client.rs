//! A client: connect, warm up, test, report.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::Session;
use super::files::Files;
use super::measure::Outcome;
use crate::client::run::Run;
use crate::client::sender;
use crate::client::threads;
use crate::client::time_line::TimeLine;
use crate::client::verdict;
use crate::error::Error;
use crate::measure::environment::Counters;
use crate::measure::offload::Offload;
use crate::measure::statistics::Statistics;
use crate::message::Flags;
use crate::net::address::Flow;
use crate::net::feed;
use crate::net::open::{self, Endpoint};
use crate::net::socket::SendPolicy;
use crate::options::{ClientOptions, CommonOptions, Mode, Multiplexer};
use crate::output::histogram;
use crate::output::json::{Circumstances, LatencyResult, RunResult, ThroughputResult};
use crate::output::report;
use crate::sys::affinity;

impl Session<'_> {
    pub(super) fn client(&mut self, options: &ClientOptions) -> Result<(), Error> {
        let line = options.data_file.as_deref().map(Path::new);
        let line = line.map(TimeLine::read).transpose()?;
        let endpoints = self.connect(options)?;
        let mut files = Files::create(options)?;
        if !self.warm_up(options, &endpoints)? {
            return Err(Error::NoResult("No messages were sent".to_owned()));
        }
        if let Some(plan) = options.rates {
            drop(endpoints);
            return self.many_rates(options, plan);
        }
        if endpoints.len() < options.threads {
            return Err(Error::Usage(
                "Number of threads should be less than sockets count".to_owned(),
            ));
        }
        let shares = threads::shares(endpoints, options.threads);
        let before = Counters::read();
        let (outcome, disturbance, intervals) =
            self.watch(options, &shares, &before, line.as_ref())?;
        let circumstances = Circumstances {
            disturbance,
            offload: Offload::read(),
            intervals,
        };
        drop(shares);
        match outcome {
            Outcome::Latency(run) => self.latency(options, &run, &mut files, circumstances),
            Outcome::Throughput(run, returned) => {
                self.output.write(&report::test_end(run.end));
                if run.sent > 0 {
                    let style = self.output.style();
                    self.output.write(&report::throughput(&run, options, style));
                }
                if let Some(returned) = &returned {
                    self.output
                        .write(&report::returned(&run, returned, options));
                }
                self.finish(
                    run.rate_too_high,
                    run.run_time_nsec,
                    run.sent + returned.map_or(0, |returned| returned.received),
                    &circumstances,
                );
                let result = ThroughputResult::new(&run, returned.as_ref());
                let result = RunResult::Throughput(result);
                self.write_json(result, circumstances)?;
                verdict::of_throughput(&run, returned.as_ref())
            }
        }
    }

    fn latency(
        &mut self,
        options: &ClientOptions,
        run: &Run,
        files: &mut Files,
        circumstances: Circumstances,
    ) -> Result<(), Error> {
        let results = &options.results;
        if let Some(estimate) = run.estimate {
            self.output.write(&report::estimate(estimate));
        }
        self.output.write(&report::test_end(run.sending.end));
        let times = &run.valid.round_trips;
        let statistics = Statistics::new(times, results.full_rtt, results.confidence_level);
        let bins = run.valid.bins.as_ref();
        let rows = bins.map(|bins| bins.rows(times.min_nsec, times.max_nsec));
        if let Some(statistics) = &statistics {
            let style = self.output.style();
            self.output
                .write(&report::latency(run, statistics, options, style));
            if let Some(rows) = &rows {
                self.output
                    .write(&histogram::bars(rows, terminal_columns(), style));
            }
            files.write(options, run, statistics, &circumstances)?;
        }
        if let Some(settling) = run.valid.settling
            && let Some(warning) = settling.warning(f64::from(options.warm_up_msec) / 1e3)
        {
            self.warn(warning);
        }
        let sending = &run.sending;
        let messages = sending.sent + run.replies.received;
        self.finish(
            sending.rate_too_high,
            sending.run_time_nsec,
            messages,
            &circumstances,
        );
        let statistics = statistics.as_ref();
        let result = LatencyResult::new(run, results.full_rtt, statistics, rows.as_deref());
        self.write_json(RunResult::Latency(result), circumstances)?;
        verdict::of_latency(run)
    }

    /// The last lines of a client.
    fn finish(
        &mut self,
        rate_too_high: bool,
        run_time_nsec: u64,
        messages: u64,
        circumstances: &Circumstances,
    ) {
        self.show_offload(circumstances, messages);
        if rate_too_high {
            self.output.write(report::RATE_TOO_HIGH);
        }
        let run_time_msec = run_time_nsec as f64 / 1e6;
        if let Some(warning) = circumstances.disturbance.warning(run_time_msec) {
            self.warn(warning);
        }
    }

    fn connect(&mut self, options: &ClientOptions) -> Result<Vec<Endpoint>, Error> {
        let common = &options.common;
        let version = report::version(self.output.style());
        let endpoints = self
            .open_endpoints(options)
            .inspect_err(|_| self.output.clone().write(&version))?;
        self.show_buffers(endpoints.iter().filter_map(|it| it.buffers));
        self.output.write(&version);
        self.output
            .write(&report::sends_on(options.mode, common.multiplexer));
        let flows = endpoints.iter().map(|endpoint| &endpoint.flow);
        self.output.write(&report::flows(flows));
        Ok(endpoints)
    }

    pub(super) fn open_endpoints(&self, options: &ClientOptions) -> Result<Vec<Endpoint>, Error> {
        let common = &options.common;
        let addresses = feed::flows_of(&common.target, "127.0.0.1")?;
        let flows = addresses
            .iter()
            .flat_map(|flow| vec![flow.clone(); options.flows]);
        let flows: Vec<Flow> = flows.collect();
        let is_ping_pong = options.mode == Mode::PingPong;
        // Blocking on one socket would keep the others waiting.
        let spins = common.nonblocked
            || (common.multiplexer == Multiplexer::Recvfrom
                && flows.len() > options.threads
                && !is_ping_pong);
        flows
            .into_iter()
            .map(|flow| open::client(flow, options, spins))
            .collect()
    }

    /// The time from the first lines to the start of the test. Returns whether the test shall
    /// start.
    fn warm_up(&mut self, options: &ClientOptions, endpoints: &[Endpoint]) -> Result<bool, Error> {
        /// Time for the neighbour look-up that the first message starts.
        const SETTLE: Duration = Duration::from_millis(100);
        const MESSAGES: u32 = 2;
        let common: &CommonOptions = &options.common;
        self.stop.sleep(common.pre_warm_up_wait);
        if common.warm_up {
            self.output.write(report::WARM_UP_STAGE);
            let mut source = sender::message_source(options, None);
            let mut policy = SendPolicy::new(false, &self.stop);
            let pong = if options.reply_every == 1 {
                Flags::PONG_REQUEST
            } else {
                0
            };
            let flags = Flags(Flags::CLIENT | Flags::WARM_UP | pong);
            for endpoint in endpoints.iter().filter(|it| !it.socket.is_stream()) {
                for _ in 0..MESSAGES {
                    let message = source.message_of(options.message_len, 0, flags);
                    endpoint.socket.send(message, &endpoint.peer, &mut policy)?;
                }
            }
            self.stop.sleep(SETTLE);
        }
        let has_one_thread = match options.mode {
            Mode::PingPong => true,
            Mode::Throughput => !options.is_bidirectional,
            _ => false,
        };
        if let (true, Some(cpus)) = (has_one_thread, &options.sender_cpus) {
            affinity::pin_current_thread(cpus)?;
        }
        if self.stop.is_requested() {
            return Ok(false);
        }
        self.output.line("Starting test...");
        Ok(true)
    }
}

fn terminal_columns() -> usize {
    const FALLBACK: usize = 80;
    rustix::termios::tcgetwinsize(io::stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|&columns| columns > 0)
        .unwrap_or(FALLBACK)
}
