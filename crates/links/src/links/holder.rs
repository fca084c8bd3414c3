//! The process behind an XDP program.

use std::fmt;
use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use descriptors::OwnDescriptor;
use libc::{c_int, pid_t};
use stats::{RingSnapshot, Segment};

/// A process that has an interface's XDP program attached, or its queues.
#[derive(Debug)]
pub(crate) struct Holder {
    process: pid_t,
    /// What it calls itself (`/proc/PID/comm`).
    name: String,
    /// Readable once it has ended.
    end: OwnDescriptor,
}

/// How long the search may take: it runs inside of a call of the program's.
const SEARCH: Duration = Duration::from_millis(100);

impl Holder {
    /// The process that has a bpf_link of the program. `None`: it cannot be seen from here (another
    /// user's, or in another pid namespace), there is none (`ip link set ... xdp`), or there are
    /// too many processes to look at.
    ///
    /// `likely`: processes to look at first.
    pub(crate) fn find(program: u32, likely: &[u32]) -> Option<Self> {
        let deadline = Instant::now() + SEARCH;
        let own = sys::process_id();
        // A child may find the interface with its parent.
        let likely = likely.iter().map(|it| it.cast_signed());
        let first = std::iter::once(sys::parent_process_id()).chain(likely);
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        first
            .filter(|process| *process != own)
            .chain(all.take_while(|_| Instant::now() < deadline))
            .find_map(|process| Self::look_at(process, program))
    }

    /// The process that says in its statistics that it has the interface's queues: one that has
    /// taken its XDP program away, because it uses none of them at the moment, can be found in no
    /// other way where the kernel has no `XDP_DIAG`.
    pub(crate) fn find_resting(segment: &Segment, index: u32, name: &str) -> Option<Self> {
        let deadline = Instant::now() + SEARCH;
        let own = sys::process_id();
        let namespace = network_namespace("thread-self");
        let has_it = |process: &u32| {
            shows(segment, *process, index, name) == Some(true)
                && network_namespace(&process.to_string()) == namespace
        };
        let publishers = segment.publishers().into_iter();
        let mut others = publishers.filter(|process| process.cast_signed() != own);
        others
            .by_ref()
            .take_while(|_| Instant::now() < deadline)
            .filter(has_it)
            .find_map(|process| {
                let end = sys::process_fd(process.cast_signed()).ok()?;
                has_it(&process).then(|| Self::named(process.cast_signed(), end))
            })
    }

    fn look_at(process: pid_t, program: u32) -> Option<Self> {
        let directory = format!("/proc/{process}");
        let directory = Path::new(&directory);
        let has_program = |fd: &fs::DirEntry| {
            let is_link = fs::read_link(fd.path()).is_ok_and(|it| {
                matches!(
                    it.to_str(),
                    Some("anon_inode:bpf_link" | "anon_inode:bpf-link")
                )
            });
            is_link
                && fs::read_to_string(directory.join("fdinfo").join(fd.file_name()))
                    .is_ok_and(|info| is_link_of(&info, program))
        };
        let mut fds = fs::read_dir(directory.join("fd")).ok()?.flatten();
        let link = fds.find(has_program)?;
        let end = sys::process_fd(process).ok()?;
        // It may have ended before that, and its number be another's.
        if !has_program(&link) {
            return None;
        }
        Some(Self::named(process, end))
    }

    fn named(process: pid_t, end: OwnDescriptor) -> Self {
        let name = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        Self {
            process,
            name: name.trim_end().replace(|it: char| it.is_control(), "?"),
            end,
        }
    }

    /// Whether it says in its statistics that it does not have the interface any more. One that
    /// says nothing is believed to.
    pub(super) fn has_left(&self, segment: &Segment, index: u32, name: &str) -> bool {
        shows(segment, self.process.cast_unsigned(), index, name) == Some(false)
    }

    pub(super) fn fd(&self) -> c_int {
        self.end.as_raw_fd()
    }

    pub(super) fn is_alive(&self) -> bool {
        sys::poll_one(self.fd(), libc::POLLIN) == Ok(0)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({})", self.process, self.name)
    }
}

/// Whether a process shows rings of an interface. `None`: its statistics cannot be read.
fn shows(segment: &Segment, process: u32, index: u32, name: &str) -> Option<bool> {
    let rings = segment.reader_of(process)?.rings().ok()?;
    let is_it = |ring: &RingSnapshot| ring.ifindex == index && ring.ifname == name;
    Some(rings.iter().any(is_it))
}

/// The network namespace of a process or thread, by its name in `/proc`.
fn network_namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// Whether `/proc/PID/fdinfo/FD` is that of a link of an XDP program. Each line is a name, a colon,
/// a tab and a value.
fn is_link_of(info: &str, program: u32) -> bool {
    let has = |key: &str, value: &str| {
        info.lines().any(|line| {
            let fact = line.split_once(':');
            fact.is_some_and(|(name, text)| name == key && text.trim() == value)
        })
    };
    has("link_type", "xdp") && has("prog_id", &program.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_told_by_its_program() {
        let info = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t1057\nlink_type:\txdp\nlink_id:\t9\n\
                    prog_tag:\t6dc2b1b1cafe0000\nprog_id:\t57\nifindex:\t23\n";
        assert!(is_link_of(info, 57));
        assert!(!is_link_of(info, 5) && !is_link_of(info, 23));
        assert!(!is_link_of(&info.replace("xdp", "tracing"), 57));
        assert!(!is_link_of("", 57));
    }

    #[test]
    fn a_program_that_nobody_has_is_found_with_nobody() {
        assert!(Holder::find(u32::MAX, &[1, 4_000_000]).is_none());
    }
}
