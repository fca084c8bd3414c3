//! The reset_driver of one process, which the library starts where no daemon runs: it waits for the
//! end of that process, resets what is left open, and ends.

use std::env;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::cli::Options;
use crate::clients::Clients;
use crate::daemon::Failure;
use crate::files;
use crate::guard::Kernel;
use crate::log::Log;
use crate::process;
use crate::raw::Transmitter;
use crate::reset_driver::{Context, ResetDriver};
use crate::status::{self, Counters};
use crate::watched::Watched;

/// What its name is to ps(1).
const NAME: &str = "vma-guardian";
/// Peers that do not answer are given up then.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs until the process has ended and its peers know.
pub(crate) fn run(options: &Options, pid: u32, log: &Log) -> Result<(), Failure> {
    // Without a name it works, too.
    let _ = fs::write("/proc/self/comm", NAME);
    if daemon_serves(options) {
        return Ok(());
    }
    // A service is stopped as a whole: this one is needed when the other has ended.
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let transmitter = Transmitter::open().map_err(Failure::Raw)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let mut kernel = Kernel::open()?;
    let statistics = fs::canonicalize(&options.stats_dir)?;
    let mut watched = Watched::new(&statistics, Instant::now());
    if !watched.add_publisher(&epoll, pid, u64::from(pid)) {
        return Ok(());
    }
    // The program may have left the directory that it was started in, to unmount it.
    env::set_current_dir("/")?;
    let mut events: Vec<Event> = Vec::with_capacity(4);
    while events.is_empty() {
        wait(&epoll, &mut events, None)?;
    }
    let now = Instant::now();
    let claims = watched.remove(pid, now).unwrap_or_default().claims;
    files::remove_stale_statistics(&watched.stale_of(pid));
    // One that was started meanwhile may know the process, too.
    if claims.is_empty() || daemon_serves(options) {
        return Ok(());
    }
    let mut reset_driver = ResetDriver::new(transmitter, options.interval(), now);
    reset_driver.resets.add(claims);
    let (clients, mut counters) = (Clients::new(), Counters::default());
    while !reset_driver.resets.is_idle() && now.elapsed() < PATIENCE {
        kernel.refresh()?;
        let is_behind = reset_driver.work(&mut Context {
            epoll: epoll.as_fd(),
            kernel: &mut kernel,
            clients: &clients,
            counters: &mut counters,
            log,
        });
        if !is_behind && let Some(deadline) = reset_driver.resets.deadline() {
            let left = deadline.saturating_duration_since(Instant::now());
            wait(&epoll, &mut events, Some(left))?;
        }
    }
    Ok(())
}

/// Whether a daemon watches the host's processes, and can send from their network namespace.
fn daemon_serves(options: &Options) -> bool {
    let answers = UnixDatagram::unbound().is_ok_and(|it| it.connect(&options.socket).is_ok());
    if !answers {
        return false;
    }
    let own = process::network_namespace(std::process::id());
    match (status::namespace(&options.status_file), own) {
        (Some(theirs), Some(own)) => theirs == own.to_string_lossy(),
        // It is not known of daemons before this one.
        _ => true,
    }
}

fn wait(epoll: impl AsFd, events: &mut Vec<Event>, most: Option<Duration>) -> Result<(), Errno> {
    events.clear();
    let timeout = most.map(|most| Timespec {
        tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: most.subsec_nanos().into(),
    });
    match epoll::wait(epoll, spare_capacity(events), timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}
