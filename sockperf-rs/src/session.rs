//! One run of the program: set up, warm up, test, report.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use crate::affinity;
use crate::clock::Clock;
use crate::complain;
use crate::error::Error;
use crate::full_log;
use crate::histogram;
use crate::json::{Document, PingPongResult, RunResult, ThroughputResult};
use crate::message::Flags;
use crate::options::{
    ClientOptions, CommonOptions, JsonTarget, Options, PingPongOptions, ServerOptions,
    ThroughputOptions,
};
use crate::output::Output;
use crate::payload::MessageSource;
use crate::ping_pong::{self, End};
use crate::report;
use crate::server;
use crate::socket::{self, Prepared};
use crate::statistics::Statistics;
use crate::stop::Stop;
use crate::throughput;

/// Runs what was asked for until its end or a signal.
pub fn run(options: &Options) -> Result<(), Error> {
    let common = options.common();
    let mut session = Session {
        options,
        stop: Stop::on_signals().map_err(|error| Error::setup("cannot handle signals", error))?,
        json: JsonSink::open(common.json.as_ref())?,
        output: Output::for_terminal(common.json == Some(JsonTarget::Stdout)),
        clock: if common.no_rdtsc {
            Clock::monotonic()
        } else {
            Clock::fastest()
        },
    };
    match options {
        Options::Server(server) => session.server(server),
        Options::PingPong(ping_pong) => session.ping_pong(ping_pong),
        Options::Throughput(throughput) => session.throughput(throughput),
    }
}

struct Session<'a> {
    options: &'a Options,
    stop: Stop,
    json: JsonSink,
    output: Output,
    clock: Clock,
}

/// The JSON document's destination, opened before the test so that a bad path costs no test.
enum JsonSink {
    None,
    Stdout,
    File { path: String, file: File },
}

impl Session<'_> {
    fn server(&mut self, options: &ServerOptions) -> Result<(), Error> {
        let prepared = socket::server(options, server::WAKE_UP)?;
        self.announce(&prepared);
        self.stop.sleep(options.common.pre_warm_up_wait);
        if options.common.warm_up {
            self.output.write(report::WARM_UP_STAGE);
        }
        pin(&options.common)?;
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        self.output.write(&report::server_ready(thread_id));
        let Self {
            clock,
            stop,
            output,
            ..
        } = self;
        let totals = server::serve(&prepared.socket, options, clock, stop, output)?;
        self.output.write(&report::server(&totals));
        self.write_json(RunResult::Server(&totals))
    }

    fn ping_pong(&mut self, options: &PingPongOptions) -> Result<(), Error> {
        let Prepared {
            socket, address, ..
        } = &self.prepare_client(&options.client, ping_pong::wake_up(options))?;
        let mut log = options.full_log.as_deref().map(create).transpose()?;
        let flags = Flags(Flags::CLIENT | Flags::PONG_REQUEST | Flags::WARM_UP);
        if !self.warm_up(&options.client, socket, *address, flags)? {
            return Err(Error::NoResult("No messages were sent".to_owned()));
        }
        let Self {
            clock,
            stop,
            output,
            ..
        } = self;
        let run = ping_pong::run(socket, *address, options, clock, stop, output)?;
        if let Some(estimate) = run.estimate {
            self.output.write(&report::estimate(estimate));
        }
        self.output.write(&report::test_end(run.end));
        let statistics = Statistics::new(
            &run.valid.round_trips,
            options.full_rtt,
            options.confidence_level,
        );
        let (min, max) = (
            run.valid.round_trips.min_nsec,
            run.valid.round_trips.max_nsec,
        );
        let rows = run.valid.bins.as_ref().map(|bins| bins.rows(min, max));
        if let Some(statistics) = &statistics {
            let style = self.output.style();
            self.output
                .write(&report::ping_pong(&run, statistics, options, style));
            if let Some(rows) = &rows {
                self.output
                    .write(&histogram::bars(rows, terminal_columns(), style));
            }
            if let (Some(file), Some(path)) = (&mut log, &options.full_log) {
                full_log::write(&mut BufWriter::new(file), &run, statistics, options)
                    .map_err(|error| Error::setup(format!("cannot write {path}"), error))?;
            }
            if run.valid.log.as_ref().is_some_and(|log| log.omitted > 0) {
                complain("WARNING: the full log does not hold all samples; use a shorter test");
            }
        }
        if run.rate_too_high {
            self.output.write(report::RATE_TOO_HIGH);
        }
        self.write_json(RunResult::PingPong(PingPongResult::new(
            &run,
            options.full_rtt,
            statistics.as_ref(),
            rows.as_deref(),
        )))?;
        judge(&run)
    }

    fn throughput(&mut self, options: &ThroughputOptions) -> Result<(), Error> {
        // Throughput never receives; the wake-up time has no effect.
        let Prepared {
            socket, address, ..
        } = &self.prepare_client(&options.client, server::WAKE_UP)?;
        let flags = Flags(Flags::CLIENT | Flags::WARM_UP);
        if !self.warm_up(&options.client, socket, *address, flags)? {
            return Err(Error::NoResult("No messages were sent".to_owned()));
        }
        let Self {
            clock,
            stop,
            output,
            ..
        } = self;
        let run = throughput::run(socket, *address, options, clock, stop, output)?;
        self.output.write(&report::test_end(run.end));
        if run.sent > 0 {
            let style = self.output.style();
            self.output.write(&report::throughput(&run, options, style));
        }
        if run.rate_too_high {
            self.output.write(report::RATE_TOO_HIGH);
        }
        self.write_json(RunResult::Throughput(ThroughputResult::new(&run)))?;
        match run.sent {
            0 => Err(Error::NoResult("No messages were sent".to_owned())),
            _ => Ok(()),
        }
    }

    fn prepare_client(
        &mut self,
        options: &ClientOptions,
        wake_up: Duration,
    ) -> Result<Prepared, Error> {
        let prepared = socket::client(options, wake_up)?;
        self.announce(&prepared);
        Ok(prepared)
    }

    fn announce(&mut self, prepared: &Prepared) {
        if let Some(sizes) = prepared.buffers {
            self.output.write(&report::buffer_sizes(sizes));
            if sizes.receive_len.min(sizes.send_len) < sizes.wanted_len {
                complain(format_args!(
                    "WARNING: Failed setting receive or send socket buffer size to {} bytes \
                     (check 'sysctl net.core.rmem_max' value)",
                    sizes.wanted_len
                ));
            }
        }
        let style = self.output.style();
        self.output.write(&report::preamble(
            self.options.mode(),
            prepared.address,
            style,
        ));
    }

    /// The time from the first lines to the start of the test. Returns whether the test shall
    /// start.
    fn warm_up(
        &mut self,
        options: &ClientOptions,
        socket: &UdpSocket,
        peer: SocketAddr,
        flags: Flags,
    ) -> Result<bool, Error> {
        /// Time for the neighbour look-up that the first message starts.
        const SETTLE: Duration = Duration::from_millis(100);
        const MESSAGES: u32 = 2;
        self.stop.sleep(options.common.pre_warm_up_wait);
        if options.common.warm_up {
            self.output.write(report::WARM_UP_STAGE);
            let mut source = MessageSource::new(options.message_len, 0, options.seed);
            for _ in 0..MESSAGES {
                socket::send(socket, source.message(0, flags), peer, &self.stop, &mut 0)?;
            }
            self.stop.sleep(SETTLE);
        }
        pin(&options.common)?;
        if self.stop.is_requested() {
            return Ok(false);
        }
        self.output.line("Starting test...");
        Ok(true)
    }

    fn write_json(&mut self, result: RunResult<'_>) -> Result<(), Error> {
        if matches!(self.json, JsonSink::None) {
            return Ok(());
        }
        let text = Document::new(self.options, &self.clock, result)
            .to_text()
            .map_err(|error| Error::setup("cannot make the JSON document", error))?;
        let (written, name) = match &mut self.json {
            JsonSink::None => return Ok(()),
            JsonSink::Stdout => (
                io::stdout().write_all(text.as_bytes()),
                "the standard output",
            ),
            JsonSink::File { path, file } => (file.write_all(text.as_bytes()), path.as_str()),
        };
        written.map_err(|error| {
            Error::setup(format!("cannot write the JSON document to {name}"), error)
        })
    }
}

impl JsonSink {
    fn open(target: Option<&JsonTarget>) -> Result<Self, Error> {
        Ok(match target {
            None => Self::None,
            Some(JsonTarget::Stdout) => Self::Stdout,
            Some(JsonTarget::File(path)) => Self::File {
                path: path.clone(),
                file: create(path)?,
            },
        })
    }
}

fn create(path: &str) -> Result<File, Error> {
    File::create(path)
        .map_err(|error| Error::setup(format!("cannot open file {path} for writing"), error))
}

fn pin(common: &CommonOptions) -> Result<(), Error> {
    common
        .cpus
        .as_deref()
        .map_or(Ok(()), affinity::pin_current_thread)
}

/// Whether a test that ran to its end succeeded.
fn judge(run: &ping_pong::Run) -> Result<(), Error> {
    if run.sent == 0 {
        return Err(Error::NoResult("No messages were sent".to_owned()));
    }
    if run.replies.received == 0 {
        return Err(Error::NoResult(
            "No messages were received from the server. Is the server down?".to_owned(),
        ));
    }
    if run.end == End::PacketTimeout {
        return Err(Error::Incomplete(
            "the requested number of packets was not reached in time".to_owned(),
        ));
    }
    if run.valid.round_trips.count == 0 {
        return Err(Error::NoResult(
            "No valid observations found. Try tune parameters: --time/--number-of-packets/--mps"
                .to_owned(),
        ));
    }
    Ok(())
}

fn terminal_columns() -> usize {
    const FALLBACK: usize = 80;
    rustix::termios::tcgetwinsize(io::stdout())
        .map(|size| usize::from(size.ws_col))
        .ok()
        .filter(|&columns| columns > 0)
        .unwrap_or(FALLBACK)
}
