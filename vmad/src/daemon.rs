//! The loop: waits for messages, deaths, files, answers of peers and signals, and does what
//! follows.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use sd_notify::NotifyState;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::agent::AgentSocket;
use crate::broker::PolicyError;
use crate::cli::Options;
use crate::clients::{Clients, Outcome, Service};
use crate::files;
use crate::guard::Kernel;
use crate::log::Log;
use crate::process;
use crate::raw::Transmitter;
use crate::reset_driver::{Context, ResetDriver};
use crate::status::{self, Counters, Status};
use crate::watch::DirectoryWatch;
use crate::watched::Watched;

/// Why the daemon cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("cannot send resets: {0} (CAP_NET_RAW is needed)")]
    Raw(io::Error),
    #[error("cannot serve {0}: {1}")]
    Agent(String, io::Error),
    #[error("{0}")]
    Policy(PolicyError),
    #[error("cannot ask the kernel for addresses and sockets: {0}")]
    Kernel(#[from] netconf::Error),
    #[error("{0}")]
    System(#[from] io::Error),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// What an event is about.
const AGENT: u64 = 0;
const FILES: u64 = 1;
const END: u64 = 2;
const RELOAD: u64 = 3;
pub(crate) const ANSWERS: u64 = 4;
/// With the process's id in the lower half: it has ended.
const PROCESS: u64 = 1 << 32;

/// Datagrams that are read before something else is done.
const DATAGRAMS_AT_ONCE: usize = 256;
/// Those that are read before a death counts: what the dead sent last is among them.
const DATAGRAMS_BEFORE_DEATH: usize = 16_384;

const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How old the status may become when nothing happens.
const STATUS_AGE: Duration = Duration::from_secs(10);

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(options: &Options, log: &Log) -> Result<(), Failure> {
    let mut daemon = Daemon::new(options, log)?;
    for name in options.without_effect() {
        log.info(format_args!("{name} is accepted and has no effect"));
    }
    log.info(format_args!(
        "vmad {} watches {} and serves {}",
        env!("CARGO_PKG_VERSION"),
        options.stats_dir.display(),
        options.socket.display()
    ));
    notify(log, &[NotifyState::Ready]);
    daemon.serve()?;
    notify(log, &[NotifyState::Stopping]);
    log.info("ended");
    Ok(())
}

struct Daemon<'a> {
    options: &'a Options,
    log: &'a Log,
    epoll: OwnedFd,
    agent: AgentSocket,
    /// `None` where the directory cannot be watched: it is looked at now and then.
    directory: Option<DirectoryWatch>,
    end: UnixStream,
    reload: UnixStream,
    kernel: Kernel,
    reset_driver: ResetDriver,
    clients: Clients,
    watched: Watched,
    counters: Counters,
    has_news: bool,
    status_written: Instant,
    status_failed: bool,
    watchdog: Option<Duration>,
}

impl<'a> Daemon<'a> {
    fn new(options: &'a Options, log: &'a Log) -> Result<Self, Failure> {
        let transmitter = Transmitter::open().map_err(Failure::Raw)?;
        let agent = AgentSocket::bind(&options.socket)
            .map_err(|error| Failure::Agent(options.socket.display().to_string(), error))?;
        let directory = DirectoryWatch::new(&options.stats_dir, stats::FILE_PREFIX)
            .inspect_err(|error| {
                let directory = options.stats_dir.display();
                log.warn(format_args!("cannot watch {directory}: {error}"));
            })
            .ok();
        let end = signals(&[SIGTERM, SIGINT])?;
        let reload = signals(&[SIGHUP])?;
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let add = |fd, data| epoll::add(&epoll, fd, EventData::new_u64(data), EventFlags::IN);
        add(agent.as_fd(), AGENT)?;
        add(end.as_fd(), END)?;
        add(reload.as_fd(), RELOAD)?;
        if let Some(directory) = &directory {
            add(directory.as_fd(), FILES)?;
        }
        let now = Instant::now();
        Ok(Self {
            options,
            log,
            agent,
            directory,
            end,
            reload,
            kernel: Kernel::open()?,
            reset_driver: ResetDriver::new(transmitter, options.interval(), now),
            clients: Clients::new(),
            watched: Watched::new(&options.stats_dir, now),
            counters: Counters::default(),
            has_news: true,
            status_written: now - STATUS_AGE,
            status_failed: false,
            watchdog: sd_notify::watchdog_enabled(),
            epoll,
        })
    }

    fn serve(&mut self) -> Result<(), Failure> {
        let mut events: Vec<Event> = Vec::with_capacity(256);
        let mut is_behind = false;
        loop {
            events.clear();
            let timeout = self.timeout(is_behind);
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.has_news |= !events.is_empty();
            let mut dead = Vec::new();
            for event in &events {
                match event.data.u64() {
                    AGENT => self.serve_clients(DATAGRAMS_AT_ONCE),
                    FILES => self.note_files(),
                    END => return Ok(()),
                    RELOAD => self.reload(),
                    ANSWERS => {}
                    data => dead.push(u32::try_from(data & !PROCESS).unwrap_or(0)),
                }
            }
            if !dead.is_empty() {
                // What the dead sent before they died counts.
                self.serve_clients(DATAGRAMS_BEFORE_DEATH);
                dead.into_iter().for_each(|pid| self.bury(pid));
            }
            self.look_at_files();
            is_behind = self.send_resets();
            self.write_status();
            if self.watchdog.is_some() {
                notify(self.log, &[NotifyState::Watchdog]);
            }
        }
    }

    fn timeout(&self, is_behind: bool) -> Timespec {
        let now = Instant::now();
        let status = if self.has_news {
            STATUS_INTERVAL
        } else {
            STATUS_AGE
        };
        let mut wait = (self.status_written + status).saturating_duration_since(now);
        wait = wait.min(self.watched.deadline().saturating_duration_since(now));
        if let Some(deadline) = self.reset_driver.resets.deadline() {
            wait = wait.min(deadline.saturating_duration_since(now));
        }
        if let Some(watchdog) = self.watchdog {
            wait = wait.min(watchdog / 3);
        }
        if is_behind {
            wait = Duration::ZERO;
        }
        // Not past the deadline, which is what would be waited for again.
        let wait = wait + Duration::from_micros(u64::from(!wait.is_zero()) * 50);
        Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        }
    }

    fn serve_clients(&mut self, most: usize) {
        self.refresh();
        let mut service = Service {
            agent: &mut self.agent,
            kernel: &mut self.kernel,
            resets: &mut self.reset_driver.resets,
            counters: &mut self.counters,
            log: self.log,
        };
        let (watched, epoll) = (&mut self.watched, self.epoll.as_fd());
        self.clients
            .serve(most, &mut service, |clients, outcome| match outcome {
                Outcome::Watch(pid) if !watched.add(epoll, pid, process_data(pid)) => {
                    clients.forget(pid);
                }
                Outcome::Watch(_) | Outcome::Nothing => {}
            });
    }

    fn refresh(&mut self) {
        if let Err(error) = self.kernel.refresh() {
            self.log
                .error(format_args!("addresses of this host: {error}"));
        }
    }

    fn note_files(&mut self) {
        let has_news = self
            .directory
            .as_ref()
            .is_some_and(DirectoryWatch::has_news);
        if has_news {
            self.watched.look_at(Instant::now());
        }
    }

    /// Takes notice of who publishes statistics, and removes those of the dead.
    fn look_at_files(&mut self) {
        if Instant::now() < self.watched.deadline() {
            return;
        }
        let stale = self
            .watched
            .look(self.epoll.as_fd(), process_data, self.has_news);
        let removed = files::remove_stale_statistics(&stale);
        if removed < u64::try_from(stale.len()).unwrap_or(0) {
            self.log
                .debug("statistics of dead processes could not all be removed");
        }
        self.counters.files_removed += removed;
    }

    fn reload(&mut self) {
        drain(&self.reload);
        let since = NotifyState::monotonic_usec_now();
        if let Ok(since) = since {
            notify(self.log, &[NotifyState::Reloading, since]);
        }
        self.refresh();
        self.watched.look_at(Instant::now());
        self.log.info("looks at everything again");
        notify(self.log, &[NotifyState::Ready]);
    }

    /// A process has ended.
    fn bury(&mut self, pid: u32) {
        let Some(left) = self.watched.remove(pid, Instant::now()) else {
            return;
        };
        self.counters.processes_ended += 1;
        let (mut claims, inner_pid) = self.clients.end(pid);
        claims.extend(left.claims);
        self.tell_of_those_elsewhere(pid, left.elsewhere);
        if let Some(inner_pid) = inner_pid {
            let removed = files::remove_agent_files(&self.options.notify_dir, inner_pid);
            self.counters.files_removed += removed;
        }
        if claims.is_empty() {
            self.log.debug(format_args!("process {pid} ended"));
            return;
        }
        self.counters.processes_ended_uncleanly += 1;
        self.log.info(format_args!(
            "process {pid} ended and left {} connections: resetting them",
            claims.len()
        ));
        self.reset_driver.resets.add(claims);
    }

    /// Peers of connections that no packet from here can reset.
    fn tell_of_those_elsewhere(&mut self, pid: u32, connections: usize) {
        if connections == 0 {
            return;
        }
        self.counters.elsewhere += connections as u64;
        self.log.warn(format_args!(
            "process {pid} ended and left {connections} connections in a network namespace that this daemon is not in, or may not \
             see: it cannot reset them. The guardian of the process does, if it has one: VMA_GUARDIAN=1, vmad beside the \
             library or in /usr/sbin, and the process not the first of its container (docker run --init, \
             shareProcessNamespace). Or run a vmad in that network namespace, with the same --stats-dir"
        ));
    }

    /// True if there is more to send at once.
    fn send_resets(&mut self) -> bool {
        if self.reset_driver.resets.is_idle() {
            self.reset_driver.rest();
            return false;
        }
        self.refresh();
        let mut context = Context {
            epoll: self.epoll.as_fd(),
            kernel: &mut self.kernel,
            clients: &self.clients,
            counters: &mut self.counters,
            log: self.log,
        };
        self.reset_driver.work(&mut context)
    }

    fn write_status(&mut self) {
        let now = Instant::now();
        let age = now - self.status_written;
        if age < STATUS_INTERVAL || (!self.has_news && age < STATUS_AGE) {
            return;
        }
        self.status_written = now;
        self.has_news = !self.reset_driver.resets.is_idle();
        let totals = self.reset_driver.resets.totals();
        let pid = std::process::id();
        let status = Status {
            pid,
            start_ticks: stats::process_start_time_ticks(pid).unwrap_or(0),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            updated: status::unix_time(),
            processes: self.watched.lines(self.clients.lines()),
            flows: self.clients.flows(),
            namespace: process::network_namespace(pid).map(|it| it.to_string_lossy().into_owned()),
            counters: Counters {
                resets_sent: totals.resets,
                probes_sent: totals.probes,
                unknown_to_peer: totals.unknown_to_peer,
                unanswered: totals.unanswered,
                ..self.counters
            },
        };
        let written = status::write_document(&status, &self.options.status_file);
        if let Err(error) = written
            && !std::mem::replace(&mut self.status_failed, true)
        {
            let file = self.options.status_file.display();
            self.log.warn(format_args!("cannot write {file}: {error}"));
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        drain(&self.end);
        // A status without a daemon is recognized as such.
        let _ = std::fs::remove_file(&self.options.status_file);
    }
}

fn process_data(pid: u32) -> u64 {
    PROCESS | u64::from(pid)
}

/// A descriptor that becomes readable with one of these signals.
pub(crate) fn signals(numbers: &[i32]) -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for number in numbers {
        pipe::register(*number, writer.try_clone()?)?;
    }
    Ok(reader)
}

fn drain(mut stream: &UnixStream) {
    let mut bytes = [0; 64];
    while io::Read::read(&mut stream, &mut bytes).is_ok_and(|count| count > 0) {}
}

/// Tells systemd, if it started this.
pub(crate) fn notify(log: &Log, states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        log.debug(format_args!("systemd: {error}"));
    }
}
