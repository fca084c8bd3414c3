//! One run of the program: set up, warm up, test, report.

use std::io::{self, BufWriter, IsTerminal};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::address::Flow;
use crate::affinity;
use crate::clock::Clock;
use crate::complain;
use crate::environment::Counters;
use crate::error::Error;
use crate::histogram;
use crate::intervals::{self, Progress};
use crate::json::{Circumstances, Document, LatencyResult, RunResult, ThroughputResult};
use crate::live::Live;
use crate::message::Flags;
use crate::monitor::{self, Plan, Sinks};
use crate::offload::Offload;
use crate::open::{self, BufferSizes, Endpoint};
use crate::options::{
    Activity, ClientOptions, CommonOptions, JsonTarget, Mode, Multiplexer, Options, ServerOptions,
};
use crate::output::Output;
use crate::ping_pong;
use crate::report;
use crate::run::{Recording, Run, Test};
use crate::sender;
use crate::server::{self, Serving};
use crate::socket::SendPolicy;
use crate::statistics::Statistics;
use crate::stop::Stop;
use crate::time_line::TimeLine;
use crate::under_load;
use crate::verdict;

mod files;
mod many_rates;

use files::{Files, JsonSink, create};

/// Runs what was asked for until its end or a signal. With `strict`, only what the original prints is
/// printed.
pub fn run(options: &Options, strict: bool) -> Result<(), Error> {
    let common = options.common();
    if common.daemonize {
        nix::unistd::daemon(true, true)
            .map_err(|errno| Error::setup("cannot run in the background", errno))?;
    }
    let mut session = Session {
        options,
        cpus: affinity::current_cpus(),
        stop: Stop::on_signals().map_err(|error| Error::setup("cannot handle signals", error))?,
        json: JsonSink::open(common.json.as_ref())?,
        output: Output::for_terminal(
            common.json == Some(JsonTarget::Stdout),
            common.color,
            strict,
        ),
        clock: if common.no_rdtsc {
            Clock::monotonic()
        } else {
            Clock::fastest()
        },
    };
    if common.daemonize {
        session.output.line("Running as daemon");
    }
    if common.debug {
        session
            .output
            .write(&report::debug(options, &session.clock));
    }
    match options {
        Options::Server(server) => session.server(server),
        Options::Client(client) => session.client(client),
    }
}

struct Session<'a> {
    options: &'a Options,
    /// Those of the process at its start.
    cpus: Vec<usize>,
    stop: Stop,
    json: JsonSink,
    output: Output,
    clock: Clock,
}

impl Session<'_> {
    fn server(&mut self, options: &ServerOptions) -> Result<(), Error> {
        let flows = Flow::of_target(&options.common.target, "0.0.0.0")?;
        let style = self.output.style();
        let version = report::version(style);
        let sockets = open::server(&flows, options, server::WAKE_UP)
            .inspect_err(|_| self.output.write(&version))?;
        self.show_buffers(sockets.iter().filter_map(|socket| socket.buffers));
        self.output.write(&version);
        if options.threads > 1 {
            self.output.line(format_args!(
                "Running {} threads to manage {} sockets",
                options.threads,
                sockets.len()
            ));
        }
        self.output.write(report::LISTENS_ON);
        let flows = sockets.iter().flat_map(|socket| &socket.flows);
        self.output.write(&report::flows(flows));
        self.stop.sleep(options.common.pre_warm_up_wait);
        if options.common.warm_up {
            self.output.write(report::WARM_UP_STAGE);
            let policy = &mut SendPolicy::new(true, &self.stop);
            sockets.iter().for_each(|socket| socket.warm_up(policy));
        }
        let before = Counters::read();
        let serving = Serving {
            options,
            clock: &self.clock,
            stop: &self.stop,
            output: self.output.clone(),
        };
        let totals = server::serve(sockets, &serving)?;
        let circumstances = Circumstances {
            disturbance: Counters::read().since(&before),
            offload: Offload::read(),
            intervals: Vec::new(),
        };
        let text = report::server(&totals, options.gap_detection, style);
        self.output.write(&text);
        self.show_offload(&circumstances, totals.handled + totals.replies);
        self.write_json(RunResult::Server(&totals), circumstances)
    }

    fn client(&mut self, options: &ClientOptions) -> Result<(), Error> {
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
        let progress = Progress::default();
        let mut test = Test {
            options,
            endpoints: &endpoints,
            clock: &self.clock,
            stop: &self.stop,
            progress: &progress,
            output: self.output.clone(),
        };
        let before = Counters::read();
        let (outcome, disturbance, intervals) = self.watch(&mut test, &before, line.as_ref())?;
        let circumstances = Circumstances {
            disturbance,
            offload: Offload::read(),
            intervals,
        };
        drop(endpoints);
        match outcome {
            Outcome::Latency(run) => self.latency(options, &run, &mut files, circumstances),
            Outcome::Throughput(run) => {
                self.output.write(&report::test_end(run.end));
                if run.sent > 0 {
                    let style = self.output.style();
                    self.output.write(&report::throughput(&run, options, style));
                }
                self.finish(
                    run.rate_too_high,
                    run.run_time_nsec,
                    run.sent,
                    &circumstances,
                );
                let result = RunResult::Throughput(ThroughputResult::new(&run));
                self.write_json(result, circumstances)?;
                verdict::of_sending(&run)
            }
        }
    }

    /// Runs the test, and beside it the reports of intervals.
    fn watch(
        &self,
        test: &mut Test<'_>,
        before: &Counters,
        line: Option<&TimeLine>,
    ) -> Result<Watched, Error> {
        let options = test.options;
        let results = &options.results;
        let is_wanted = results.interval_msec.is_some()
            || results.csv.is_some()
            || results.live
            || results.html.is_some()
            || options.common.json.is_some()
            || self.has_ticker(options);
        let mut recording = Recording::default();
        let run = |test: &mut Test<'_>, recording| {
            let outcome = match options.mode {
                Mode::PingPong => ping_pong::run(test, recording).map(Outcome::Latency),
                Mode::Throughput => sender::run(test, line, None).map(Outcome::Throughput),
                _ => under_load::run(test, line, recording).map(Outcome::Latency),
            };
            outcome.map(|outcome| (outcome, Counters::read().since(before)))
        };
        if !is_wanted {
            let (outcome, disturbance) = run(test, recording)?;
            return Ok((outcome, disturbance, Vec::new()));
        }
        let mut sinks = self.sinks(options)?;
        let plan = Plan {
            interval: Duration::from_millis(u64::from(results.interval_msec.unwrap_or(1000))),
            full_rtt: results.full_rtt,
        };
        let mut collector = None;
        if options.mode.measures_latency() {
            let (tap, end) = intervals::pair()?;
            recording.tap = Some(tap);
            collector = Some(end);
        }
        let (end_tx, end) = mpsc::channel();
        let progress = test.progress;
        thread::scope(|scope| {
            let cpus = &self.cpus;
            let watcher = scope.spawn(move || {
                // Not on the CPU that the measuring thread is pinned to; where that fails, it is.
                affinity::pin_current_thread(cpus).ok();
                monitor::watch(plan, progress, collector.as_ref(), &mut sinks, &end)
            });
            let outcome = run(test, recording);
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
        let live = results.live.then(|| Live::open(report::title(options)));
        let mut sinks = Sinks {
            text: (results.interval_msec.is_some() && !results.live).then(|| self.output.clone()),
            csv: csv.map(BufWriter::new),
            ticker: self.has_ticker(options),
            live: live.transpose()?,
        };
        sinks.begin(results.full_rtt)?;
        Ok(sinks)
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
            complain(warning);
        }
    }

    fn show_offload(&mut self, circumstances: &Circumstances, messages: u64) {
        if let Some(offload) = &circumstances.offload {
            if !self.output.style().strict {
                self.output.write(&offload.lines());
            }
            if let Some(warning) = offload.warning(messages) {
                complain(warning);
            }
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

    fn open_endpoints(&self, options: &ClientOptions) -> Result<Vec<Endpoint>, Error> {
        let common = &options.common;
        let flows = Flow::of_target(&common.target, "127.0.0.1")?;
        let is_ping_pong = options.mode == Mode::PingPong;
        // Blocking on one socket would keep the others waiting.
        let spins = common.nonblocked
            || (common.multiplexer == Multiplexer::Recvfrom && flows.len() > 1 && !is_ping_pong);
        let wake_up = ping_pong::wake_up(options);
        flows
            .into_iter()
            .map(|flow| open::client(flow, options, wake_up, spins))
            .collect()
    }

    fn show_buffers(&mut self, buffers: impl Iterator<Item = BufferSizes>) {
        for sizes in buffers {
            self.output.write(&report::buffer_sizes(sizes));
            if sizes.receive_len.min(sizes.send_len) < sizes.wanted_len {
                complain(format_args!(
                    "WARNING: Failed setting receive or send socket buffer size to {} bytes \
                     (check 'sysctl net.core.rmem_max' value)",
                    sizes.wanted_len
                ));
            }
        }
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
        let has_one_thread = matches!(options.mode, Mode::PingPong | Mode::Throughput);
        if let (true, Some(cpus)) = (has_one_thread, &options.sender_cpus) {
            affinity::pin_current_thread(cpus)?;
        }
        if self.stop.is_requested() {
            return Ok(false);
        }
        self.output.line("Starting test...");
        Ok(true)
    }

    fn write_json(
        &mut self,
        result: RunResult<'_>,
        circumstances: Circumstances,
    ) -> Result<(), Error> {
        if matches!(self.json, JsonSink::None) {
            return Ok(());
        }
        let text = Document::new(self.options, &self.clock, result, circumstances)
            .to_text()
            .map_err(|error| Error::setup("cannot make the JSON document", error))?;
        self.json.write(&text)
    }
}

type Watched = (
    Outcome,
    crate::environment::Disturbance,
    Vec<intervals::Interval>,
);

#[allow(clippy::large_enum_variant, reason = "there is one per process")]
enum Outcome {
    Latency(Run),
    Throughput(crate::run::Sending),
}

fn terminal_columns() -> usize {
    const FALLBACK: usize = 80;
    rustix::termios::tcgetwinsize(io::stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|&columns| columns > 0)
        .unwrap_or(FALLBACK)
}
