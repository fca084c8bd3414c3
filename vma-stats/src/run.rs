//! The loop: look, print, wait.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use stats::{ReadError, Reader, SectionKind};

use crate::basic_view::BasicView;
use crate::cli::{Details, Options, Process};
use crate::json;
use crate::message::tell;
use crate::preloaded;
use crate::sample::{Report, Sample};
use crate::select::{SelectError, select};

/// Shows statistics until the process ends, Ctrl-C is pressed or the cycles are done.
pub(crate) fn run(options: &Options) -> ExitCode {
    let interrupts = match watch_interrupts() {
        Ok(interrupts) => interrupts,
        Err(error) => {
            tell(format_args!("cannot watch for Ctrl-C: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let reader = match select(options) {
        Ok(reader) => reader,
        Err(error) => {
            tell(&error);
            tell_of_silent(options, &error);
            return ExitCode::FAILURE;
        }
    };
    let process = reader.process();
    tell(format_args!(
        "stats for application: {} with pid: {}",
        process.program, process.pid
    ));
    match show(options, &reader, &interrupts, &mut io::stdout().lock()) {
        Ok(End::Cycles) => ExitCode::SUCCESS,
        Ok(End::Process) => {
            // The original's spelling: scripts look for it.
            tell(format_args!("Proccess {} ended - exiting", process.pid));
            ExitCode::SUCCESS
        }
        Ok(End::Interrupt) => {
            tell("Got Ctrl-C (interrupted by user)");
            ExitCode::SUCCESS
        }
        // Whoever read the output has seen enough.
        Err(ShowError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(ShowError::Write(error)) => {
            tell(format_args!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
        Err(ShowError::Read(error)) => {
            tell(error);
            ExitCode::FAILURE
        }
    }
}

/// Names processes that run with the library and have nothing to show.
fn tell_of_silent(options: &Options, error: &SelectError) {
    let pid = match (&options.process, error) {
        (Process::Pid(pid), SelectError::Read(ReadError::NotFound { .. })) => Some(*pid),
        (_, SelectError::NoProcess) => None,
        _ => return,
    };
    for process in preloaded::processes(pid) {
        tell(format_args!(
            "process {} ({}) runs with libvma, but publishes nothing in {}: it has opened no UDP socket over IPv4 \
             (TCP and IPv6 are the kernel's for now), or has another VMA_STATS_SHMEM_DIR",
            process.pid,
            process.name,
            options.directory.display(),
        ));
    }
}

/// Why no more is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Cycles,
    Process,
    Interrupt,
}

#[derive(Debug)]
enum ShowError {
    Read(ReadError),
    Write(io::Error),
}

impl From<ReadError> for ShowError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for ShowError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

fn show(
    options: &Options,
    reader: &Reader,
    interrupts: &Receiver<()>,
    output: &mut impl Write,
) -> Result<End, ShowError> {
    let mut view = BasicView::new(options.explain);
    let mut told_of_overflow = false;
    let mut earlier = None;
    if options.details == Details::Deltas {
        earlier = Some(Sample::take(reader)?);
        if let Some(end) = wait(options.interval, reader, interrupts) {
            return Ok(end);
        }
    }
    let mut printed = 0_u64;
    loop {
        let sample = Sample::take(reader)?;
        if sample.overflowed_sockets > 0 && !told_of_overflow {
            told_of_overflow = true;
            tell(format_args!(
                "{} sockets are not shown: there is room for {}, see VMA_STATS_FD_NUM",
                sample.overflowed_sockets,
                reader.capacity(SectionKind::Sockets),
            ));
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
        output.write_all(format(options, reader, &mut view, &report)?.as_bytes())?;
        output.flush()?;
        printed += 1;
        if printed == options.cycles {
            return Ok(End::Cycles);
        }
        if let Some(end) = wait(options.interval, reader, interrupts) {
            return Ok(end);
        }
    }
}

/// Where to look if sockets are not accelerated, for whoever does not look there already.
fn hint(options: &Options, sample: &Sample) -> Option<String> {
    if options.explain || options.json {
        return None;
    }
    let of_kernel = sample.sockets.iter().filter(|it| !it.offloaded).count();
    let others = sample.kernel_sockets.len();
    let all = sample.sockets.len() + others;
    match of_kernel + others {
        0 => None,
        count => Some(format!(
            "sockets that are not offloaded: {count} of {all}; --explain tells why"
        )),
    }
}

fn format(
    options: &Options,
    reader: &Reader,
    view: &mut BasicView,
    report: &Report,
) -> io::Result<String> {
    if options.json {
        return Ok(json::format(reader.process(), report, SystemTime::now())?);
    }
    Ok(view.format(report))
}

/// Waits for the next cycle. `Some` when there will be none.
fn wait(interval: Duration, reader: &Reader, interrupts: &Receiver<()>) -> Option<End> {
    let end = Instant::now() + interval;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if interrupts.recv_timeout(left.min(LIVENESS_INTERVAL)) != Err(RecvTimeoutError::Timeout) {
            return Some(End::Interrupt);
        }
        if !reader.is_live() {
            return Some(End::Process);
        }
        if left <= LIVENESS_INTERVAL {
            return None;
        }
    }
}

/// How soon the end of the process is noticed when reports are far apart.
const LIVENESS_INTERVAL: Duration = Duration::from_millis(200);

/// A message arrives for every Ctrl-C.
fn watch_interrupts() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new([SIGINT])?;
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
