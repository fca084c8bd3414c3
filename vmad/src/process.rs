//! Processes as the kernel knows them.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A process that cannot be mistaken for a later one with its number.
#[derive(Debug)]
pub(crate) struct Process {
    /// Readable when the process has ended.
    pub(crate) pidfd: OwnedFd,
    /// Since boot, clock ticks.
    pub(crate) start_ticks: u64,
}

impl Process {
    /// `None` if no such process runs.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let number = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty()).ok()?;
        // Read after the descriptor was opened: if the number changed hands before, it is the later
        // one's time.
        let start_ticks = stats::process_start_time_ticks(pid)?;
        Some(Self { pidfd, start_ticks })
    }
}

/// Whether the process acts for this user.
pub(crate) fn belongs_to(pid: u32, user: u32) -> bool {
    let status = read(pid, "status");
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| {
        users
            .split_whitespace()
            .any(|word| word.parse() == Ok(user))
    })
}

/// The user that the process acts for.
pub(crate) fn user(pid: u32) -> Option<u32> {
    let status = read(pid, "status");
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)?.parse().ok()
}

/// Whether the process has CAP_NET_ADMIN. That it is in the daemon's network namespace is known
/// already.
pub(crate) fn may_administer_network(pid: u32) -> bool {
    let status = read(pid, "status");
    let capabilities = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:\t"))
        .and_then(|set| u64::from_str_radix(set, 16).ok());
    capabilities.is_some_and(|set| set & 1 << CAP_NET_ADMIN != 0)
}

/// The process's id in its own PID namespace.
pub(crate) fn inner_pid(pid: u32) -> Option<i32> {
    let status = read(pid, "status");
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().last()?.parse().ok()
}

/// Which network namespace the process is in; `None` where this daemon may not know
/// (CAP_SYS_PTRACE).
pub(crate) fn network_namespace(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/net")).ok()
}

/// Whether a thread of the process is in the network namespace with this number, of this device.
pub(crate) fn is_in_network_namespace(pid: u32, namespace: (u64, u64)) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let found = fs::metadata(thread.path().join("ns/net"));
        found.is_ok_and(|it| (it.dev(), it.ino()) == namespace)
    })
}

/// The name of the program that the process runs, which it may choose itself; empty if the process
/// has gone.
pub(crate) fn program(pid: u32) -> String {
    read(pid, "comm").trim_end_matches('\n').to_owned()
}

/// The supplementary groups of the process.
pub(crate) fn groups(pid: u32) -> Vec<u32> {
    let status = read(pid, "status");
    let groups = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = groups.unwrap_or_default().split_whitespace();
    numbers.filter_map(|word| word.parse().ok()).collect()
}

/// Whether the process of a pidfd has not ended.
pub(crate) fn is_alive(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&at_once)) == Ok(0)
}

const CAP_NET_ADMIN: u32 = 12;

fn read(pid: u32, name: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn this_process_is_known() {
        let pid = process::id();
        let user = fs::metadata("/proc/self").unwrap().uid();
        assert!(belongs_to(pid, user));
        assert!(!belongs_to(pid, user + 4711));
        assert_eq!(inner_pid(pid), i32::try_from(pid).ok());
        assert!(network_namespace(pid).is_some());
        let opened = Process::open(pid).unwrap();
        assert_eq!(
            Some(opened.start_ticks),
            stats::process_start_time_ticks(pid)
        );
    }

    #[test]
    fn there_is_no_process_zero() {
        assert!(Process::open(0).is_none());
        assert!(Process::open(u32::MAX).is_none());
    }
}
