//! Processes whose end is waited for, each once whatever it was found by.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use std::os::fd::AsFd;

use crate::legacy::{Left, Legacy};
use crate::process::Process;
use crate::status::ProcessLine;

/// As many as can be waited for.
const MOST: usize = 16_384;

/// Shortest time between two looks at the directory.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A file may be there before what is in it.
const SECOND_LOOK: Duration = Duration::from_secs(1);
const REGULAR_LOOK: Duration = Duration::from_secs(60);
/// At most a part of the time is spent on looking, however many files somebody makes.
const REST_PER_LOOK: u32 = 20;

#[derive(Debug)]
pub(crate) struct Watched {
    processes: HashMap<u32, Entry>,
    directory: PathBuf,
    due: Instant,
    not_before: Instant,
}

#[derive(Debug)]
struct Entry {
    /// Keeps the descriptor open.
    process: Process,
    /// `None`: it publishes no statistics.
    statistics: Option<Legacy>,
}

impl Watched {
    /// `directory` is where processes publish statistics.
    pub(crate) fn new(directory: &Path, now: Instant) -> Self {
        Self {
            processes: HashMap::new(),
            directory: directory.to_owned(),
            due: now,
            not_before: now,
        }
    }

    /// Waits for the end of the process, which makes `epoll` report `data`. False if it has ended
    /// already, or there are too many.
    pub(crate) fn add(&mut self, epoll: impl AsFd, pid: u32, data: u64) -> bool {
        if let Some(known) = self.processes.get(&pid)
            && stats::process_start_time_ticks(pid) == Some(known.process.start_ticks)
        {
            return true;
        }
        if self.processes.len() >= MOST {
            return false;
        }
        let Some(process) = Process::open(pid) else {
            return false;
        };
        let data = EventData::new_u64(data);
        if epoll::add(epoll, &process.pidfd, data, EventFlags::IN).is_err() {
            return false;
        }
        let entry = Entry {
            process,
            statistics: None,
        };
        self.processes.insert(pid, entry);
        true
    }

    /// The same of one that publishes statistics there. False if it does not.
    pub(crate) fn add_publisher(&mut self, epoll: impl AsFd, pid: u32, data: u64) -> bool {
        // Before the process is waited for: its name may be another's by then.
        let statistics = Legacy::of(&self.directory, pid);
        let is_added = statistics.is_some() && self.add(epoll, pid, data);
        if let Some(entry) = self.processes.get_mut(&pid) {
            entry.statistics = statistics;
        }
        is_added
    }

    /// The file of this process, if it has ended and left it.
    pub(crate) fn stale_of(&self, pid: u32) -> Vec<PathBuf> {
        let listing = stats::list_directory(&self.directory).unwrap_or_default();
        let name = format!("{}{pid}", stats::FILE_PREFIX);
        let is_of = |path: &PathBuf| path.file_name().is_some_and(|it| *it == *name);
        listing.stale.into_iter().filter(is_of).collect()
    }

    /// The process has ended: what it left open as its statistics say. `None` if it was not
    /// watched.
    pub(crate) fn remove(&mut self, pid: u32, now: Instant) -> Option<Left> {
        let entry = self.processes.remove(&pid)?;
        let Some(legacy) = entry.statistics else {
            return Some(Left::default());
        };
        self.look_at(now);
        Some(legacy.left(entry.process.start_ticks))
    }

    /// A file came: look soon, and once more when it is complete.
    pub(crate) fn look_at(&mut self, when: Instant) {
        self.due = self.due.min(when);
    }

    /// When to look at the directory.
    pub(crate) fn deadline(&self) -> Instant {
        self.due.max(self.not_before)
    }

    /// Looks at the directory: watches who publishes there, and returns the files of the dead.
    pub(crate) fn look(
        &mut self,
        epoll: impl AsFd + Copy,
        data: impl Fn(u32) -> u64,
        had_news: bool,
    ) -> Vec<PathBuf> {
        let begun = Instant::now();
        let listing = stats::list_directory(&self.directory).unwrap_or_default();
        for published in &listing.live {
            if self.add(epoll, published.pid, data(published.pid))
                && let Some(entry) = self.processes.get_mut(&published.pid)
                && !entry.statistics.as_ref().is_some_and(Legacy::is_current)
            {
                entry.statistics = Legacy::of(&self.directory, published.pid);
            }
        }
        let now = Instant::now();
        let rest = LOOK_INTERVAL.max((now - begun) * REST_PER_LOOK);
        self.not_before = now + rest;
        self.due = now + if had_news { SECOND_LOOK } else { REGULAR_LOOK };
        listing.stale
    }

    /// Every watched process: those of `told` with what they told, and the others.
    pub(crate) fn lines(&self, told: Vec<ProcessLine>) -> Vec<ProcessLine> {
        let others = self.processes.iter().map(|(pid, entry)| ProcessLine {
            pid: *pid,
            user: None,
            statistics: entry.statistics.is_some(),
            messages: false,
            connections: 0,
        });
        let mut lines: BTreeMap<u32, ProcessLine> = others.map(|line| (line.pid, line)).collect();
        for line in told {
            let statistics = lines.get(&line.pid).is_some_and(|known| known.statistics);
            lines.insert(line.pid, ProcessLine { statistics, ..line });
        }
        lines.into_values().collect()
    }
}
