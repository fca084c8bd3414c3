//! The loop: look, print, wait.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use stats::{ReadError, Reader, SectionKind};

use crate::capture::{self, Capture};
use crate::cli::{Details, Options, Output, Process};
use crate::message::tell;
use crate::prometheus::Metrics;
use crate::sample::{Report, Sample};
use crate::select::{SelectError, select};
use crate::source::{End, Recording, Source, SourceError};
use crate::tui::{self, ScreenError};
use crate::views::{Table, basic, columns::Sockets, full, groups, medium, netstat};
use crate::{control, csv, json, overview, preloaded, words};

/// Shows statistics until the process ends, Ctrl-C is pressed or the cycles are done.
pub(crate) fn run(options: &Options) -> ExitCode {
    let outcome = match &options.output {
        // These are of all processes.
        Output::Netstat if options.replay.is_none() => return overview::list(options),
        Output::Prometheus { address, is_single } if options.replay.is_none() => {
            return overview::metrics(options, *address, *is_single);
        }
        Output::Broker { socket, is_json } => return overview::broker(socket, *is_json),
        Output::Capture(capture) => return take_packets(options, capture),
        _ => watch(options),
    };
    match outcome {
        Ok(End::Cycles | End::Recording) => ExitCode::SUCCESS,
        Ok(End::Process | End::Interrupt) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => tell_of_failure(options, failure),
    }
}

fn tell_of_failure(options: &Options, failure: Failure) -> ExitCode {
    match failure {
        Failure::Write(error) => {
            tell(format_args!("cannot write to standard output: {error}"));
        }
        Failure::Source(error) => tell(error),
        Failure::Other(text) => tell(text),
        Failure::Select(error) => {
            tell(&error);
            tell_of_silent(options, &error);
        }
    }
    ExitCode::FAILURE
}

/// Why nothing more is shown that should be.
#[derive(Debug)]
enum Failure {
    Select(SelectError),
    Source(SourceError),
    Write(io::Error),
    Other(String),
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self::Source(error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Source(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Packets instead of statistics.
fn take_packets(options: &Options, capture: &Capture) -> ExitCode {
    let took = || {
        let interrupts = watch_interrupts().map_err(cannot_watch)?;
        let reader = select(options).map_err(Failure::Select)?;
        let wanted = (options.cycles, &options.sockets);
        let directory = &options.directory;
        capture::run(capture, directory, reader, wanted, &interrupts).map_err(Failure::Other)
    };
    match took() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => tell_of_failure(options, failure),
    }
}

fn cannot_watch(error: io::Error) -> Failure {
    Failure::Other(format!("cannot watch for Ctrl-C: {error}"))
}

fn watch(options: &Options) -> Result<End, Failure> {
    let interrupts = watch_interrupts().map_err(cannot_watch)?;
    let mut source = match &options.replay {
        Some(path) => Source::Recorded(Recording::open(path)?),
        None => Source::Live {
            reader: match wait_for_process(options, &interrupts)? {
                Some(reader) => reader,
                None => return Ok(End::Interrupt),
            },
            sockets: options.sockets.clone(),
        },
    };
    let process = source.process().clone();
    tell(format_args!(
        "stats for application: {} with pid: {}",
        process.program, process.pid
    ));
    if options.replay.is_none() {
        control::send(&options.directory, process.pid, &options.requests)
            .map_err(Failure::Other)?;
        if options.requests.dump.is_some() {
            return Ok(End::Cycles);
        }
    }
    if let Output::Screens = options.output {
        return match tui::run(options, source, &interrupts) {
            Ok(end) => Ok(end),
            Err(ScreenError::Source(error)) => Err(Failure::Source(error)),
            Err(ScreenError::Terminal(error)) => {
                Err(Failure::Other(format!("cannot use the terminal: {error}")))
            }
        };
    }
    let output: &mut dyn Write = match &options.output {
        Output::Record(path) => &mut create(path)?,
        _ => &mut io::stdout().lock(),
    };
    let end = show(options, &mut source, &interrupts, output)?;
    match end {
        // The original's spelling: scripts look for it.
        End::Process => tell(format_args!("Proccess {} ended - exiting", process.pid)),
        End::Interrupt => tell("Got Ctrl-C (interrupted by user)"),
        End::Cycles | End::Recording => {}
    }
    Ok(end)
}

/// The process that the options ask for. One that is asked for by name, for the screens, may come
/// later. `None`: nobody waits any more.
fn wait_for_process(
    options: &Options,
    interrupts: &Receiver<()>,
) -> Result<Option<Reader>, Failure> {
    let mut is_told = false;
    loop {
        let error = match select(options) {
            Ok(reader) => return Ok(Some(reader)),
            Err(error) => error,
        };
        let (SelectError::NoProcess, Output::Screens, Process::Name(name)) =
            (&error, &options.output, &options.process)
        else {
            return Err(Failure::Select(error));
        };
        if !is_told {
            is_told = true;
            tell(format_args!("waiting for a process {name}; Ctrl-C ends"));
            tell_of_silent(options, &error);
        }
        if interrupts.recv_timeout(WAITING_INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return Ok(None);
        }
    }
}

/// How often a process is looked for that is not there yet.
const WAITING_INTERVAL: Duration = Duration::from_millis(200);

/// A file of the user's own: it says what a process does.
fn create(path: &Path) -> Result<std::fs::File, Failure> {
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(true).mode(0o600);
    how.open(path)
        .map_err(|error| Failure::Other(format!("{}: {error}", path.display())))
}

/// Names processes that run with the library and have nothing to show.
fn tell_of_silent(options: &Options, error: &SelectError) {
    let pid = match (&options.process, error) {
        (Process::Pid(pid), SelectError::Read(ReadError::NotFound { .. })) => Some(*pid),
        (_, SelectError::NoProcess) => None,
        _ => return,
    };
    let silent = preloaded::processes(pid);
    for process in &silent {
        tell(format_args!(
            "process {} ({}) runs with libvma, but publishes nothing in {}: it has opened no TCP or UDP socket \
             (what it accepts from a listener of its parent's is the kernel's for now), or has another \
             VMA_STATS_SHMEM_DIR",
            process.pid,
            process.name,
            options.directory.display(),
        ));
    }
    if let Some(pid) = pid.filter(|_| silent.is_empty())
        && stats::process_start_time_ticks(pid).is_some()
    {
        tell(format_args!(
            "process {pid} does not run with libvma, as far as this user can see. A program is started with it by: \
             LD_PRELOAD=libvma.so PROGRAM"
        ));
    }
}

fn show(
    options: &Options,
    source: &mut Source,
    interrupts: &Receiver<()>,
    output: &mut dyn Write,
) -> Result<End, Failure> {
    let mut printer = Printer::new(options);
    let mut told_of_overflow = false;
    let mut earlier = None;
    if options.details == Details::Deltas && printer.is_repeated() {
        earlier = source.sample()?;
        if let Some(end) = source.wait(options.interval, interrupts) {
            return Ok(end);
        }
    }
    let mut printed = 0_u64;
    loop {
        let Some(sample) = source.sample()? else {
            return Ok(End::Recording);
        };
        if sample.overflowed_sockets > 0 && !told_of_overflow {
            told_of_overflow = true;
            tell_of_overflow(source, &sample);
        }
        if printed == 0
            && let Some(hint) = hint(options, &sample)
        {
            tell(hint);
        }
        let report = match &mut earlier {
            Some(earlier) => {
                let report = sample.deltas(earlier);
                *earlier = sample;
                report
            }
            None => sample.totals(),
        };
        output.write_all(printer.format(source, &report)?.as_bytes())?;
        output.flush()?;
        printed += 1;
        if printed == options.cycles || !printer.is_repeated() {
            return Ok(End::Cycles);
        }
        if let Some(end) = source.wait(options.interval, interrupts) {
            return Ok(end);
        }
    }
}

fn tell_of_overflow(source: &Source, sample: &Sample) {
    let room = match source {
        Source::Live { reader, .. } => reader.capacity(SectionKind::Sockets).to_string(),
        Source::Recorded(_) => "fewer".to_owned(),
    };
    tell(format_args!(
        "{} sockets are not shown: there is room for {room}, see VMA_STATS_FD_NUM",
        sample.overflowed_sockets,
    ));
}

/// Where to look if sockets are not accelerated, for whoever does not look there already.
fn hint(options: &Options, sample: &Sample) -> Option<String> {
    let looks_elsewhere = !matches!(
        options.output,
        Output::Basic { explained: false } | Output::Medium | Output::Full
    );
    if looks_elsewhere {
        return None;
    }
    let statistics = &sample.statistics;
    let of_kernel = statistics.sockets.iter().filter(|it| !it.offloaded).count();
    let others = statistics.kernel_sockets.len();
    let all = statistics.sockets.len() + others;
    match of_kernel + others {
        0 => None,
        count => Some(format!(
            "sockets that are not offloaded: {count} of {all}; --explain tells why"
        )),
    }
}

/// Formats reports as the options ask for.
struct Printer<'a> {
    output: &'a Output,
    basic: Table<Sockets>,
    medium: Table<Sockets>,
    documents: json::Documents,
    metrics: Metrics,
    is_first: bool,
    clears: bool,
}

impl<'a> Printer<'a> {
    fn new(options: &'a Options) -> Self {
        let explained = matches!(options.output, Output::Basic { explained: true });
        Self {
            output: &options.output,
            basic: Table::new(basic::view(explained)),
            medium: Table::new(medium::view()),
            documents: json::Documents::default(),
            metrics: Metrics::default(),
            is_first: true,
            clears: io::stdout().is_terminal() && options.cycles != 1,
        }
    }

    /// Whether a report follows the other.
    fn is_repeated(&self) -> bool {
        !matches!(
            self.output,
            Output::Groups | Output::Netstat | Output::Words(_) | Output::Prometheus { .. }
        )
    }

    fn format(&mut self, source: &Source, report: &Report) -> Result<String, Failure> {
        let process = source.process();
        let is_first = std::mem::replace(&mut self.is_first, false);
        Ok(match self.output {
            Output::Screens | Output::Basic { .. } => self.basic.format(report),
            // They are of no process's statistics (`run`).
            Output::Capture(_) | Output::Broker { .. } => String::new(),
            Output::Medium => self.medium.format(report),
            Output::Full if self.clears => full::CLEAR_SCREEN.to_owned() + &full::format(report),
            Output::Full => full::format(report),
            Output::Groups => groups::format(report),
            Output::Netstat => netstat::heading() + &netstat::format(process, &report.values),
            Output::Json | Output::Record(_) => {
                let line = self.documents.format(process, report);
                line.map_err(io::Error::from)?
            }
            Output::Csv(section) if is_first => {
                csv::heading(section) + &csv::format(process, report, section)
            }
            Output::Csv(section) => csv::format(process, report, section),
            Output::Prometheus { is_single, .. } => {
                self.metrics.is_single = *is_single;
                self.metrics
                    .text(&[(process.clone(), report.values.clone())])
            }
            Output::Words(fd) => words::format(report, *fd).ok_or_else(|| {
                let fd = fd.unwrap_or(-1);
                Failure::Other(format!(
                    "process {} has no socket with descriptor {fd} that the library knows",
                    process.pid
                ))
            })?,
        })
    }
}

/// A message arrives for every Ctrl-C.
fn watch_interrupts() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (interrupt_tx, interrupt_rx) = mpsc::channel();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for _ in signals.forever() {
                if interrupt_tx.send(()).is_err() {
                    return;
                }
            }
        })?;
    Ok(interrupt_rx)
}
