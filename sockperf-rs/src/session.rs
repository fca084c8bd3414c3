//! One run of the program: set up, warm up, test, report.

use crate::error::Error;
use crate::error::complain;
use crate::measure::environment::Counters;
use crate::measure::offload::Offload;
use crate::net::feed;
use crate::net::open::{self, BufferSizes};
use crate::net::socket::SendPolicy;
use crate::options::{JsonTarget, Options, ServerOptions};
use crate::output::json::{Circumstances, Document, RunResult};
use crate::output::report;
use crate::server::{self, Filters, Serving};
use crate::sys::affinity;
use crate::sys::clock::Clock;
use crate::sys::stop::Stop;
use crate::terminal::Output;
use crate::tls::Acceptor;

mod client;
mod files;
mod many_rates;
mod measure;
mod watch;

use files::JsonSink;

/// Runs what was asked for until its end or a signal. With `strict`, only what the original prints
/// is printed.
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
        let flows = feed::flows_of(&options.common.target, "0.0.0.0")?;
        let cipher = options.common.socket.tls.as_deref();
        let tls = cipher.map(Acceptor::new).transpose()?;
        let style = self.output.style();
        let version = report::version(style);
        let sockets = open::server(&flows, options).inspect_err(|_| self.output.write(&version))?;
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
            tls,
            filters: Filters::new(options, &self.stop, &self.output)?,
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

    fn show_offload(&mut self, circumstances: &Circumstances, messages: u64) {
        if let Some(offload) = &circumstances.offload {
            if !self.output.style().strict {
                self.output.write(&offload.lines());
            }
            if let Some(warning) = offload.warning(messages) {
                self.warn(warning);
            }
        }
    }

    /// What the original does not warn of.
    fn warn(&self, warning: impl std::fmt::Display) {
        if !self.output.style().strict {
            complain(warning);
        }
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
