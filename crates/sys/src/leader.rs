//! The program's first thread, as the kernel shows it in `/proc/self`: whether it still runs, and
//! what it may do.

use std::ffi::CStr;
use std::os::fd::AsRawFd;

use descriptors::OwnDescriptor;
use libc::c_int;

use super::{Capabilities, check, owned};

/// What is read at once. Only a process in very many groups has more; of that nothing is known.
const STATUS_BYTES: usize = 1 << 14;

/// The files, opened while `/proc` was in reach.
#[derive(Debug)]
pub struct Leader {
    status: OwnDescriptor,
    stat: OwnDescriptor,
}

/// What is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderStatus {
    /// The first thread has ended.
    pub has_ended: bool,
    /// Threads of the process, the first one included in any case.
    pub threads: u32,
    /// Real, effective and saved.
    pub users: [u32; 3],
    pub groups: [u32; 3],
    pub capabilities: Capabilities,
}

/// How the program's first thread has ended. The last thread's status becomes the process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// As by `pthread_exit(3)`.
    Thread,
    /// By the system call, with this status.
    Exit(c_int),
    /// By this signal: a filter of system calls has killed it.
    Killed(c_int),
}

impl Leader {
    /// `None`: there is no `/proc`.
    pub fn open() -> Option<Self> {
        Some(Self {
            status: open(c"/proc/self/status")?,
            stat: open(c"/proc/self/stat")?,
        })
    }

    /// Asks anew. `None`: the kernel does not say.
    pub fn look(&self) -> Option<LeaderStatus> {
        LeaderStatus::parse(&read(&self.status)?)
    }

    /// How the thread has ended, if it has.
    pub fn end(&self) -> ProgramEnd {
        let code = read(&self.stat).and_then(|text| exit_code(&text));
        ProgramEnd::of(code.unwrap_or(0))
    }
}

impl LeaderStatus {
    /// Whether it may do the same.
    pub fn has_rights_of(&self, other: &Self) -> bool {
        (self.users, self.groups, self.capabilities)
            == (other.users, other.groups, other.capabilities)
    }

    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let ids = |name| {
            let mut numbers = field(name)?.split_whitespace().map(|id| id.parse().ok());
            Some([numbers.next()??, numbers.next()??, numbers.next()??])
        };
        let set = |name| u64::from_str_radix(field(name)?, 16).ok();
        Some(Self {
            has_ended: field("State")?.starts_with(['Z', 'X']),
            threads: field("Threads")?.parse().ok()?,
            users: ids("Uid")?,
            groups: ids("Gid")?,
            capabilities: Capabilities {
                effective: set("CapEff")?,
                permitted: set("CapPrm")?,
                inheritable: set("CapInh")?,
            },
        })
    }
}

impl ProgramEnd {
    /// Of what `wait(2)` says.
    fn of(code: c_int) -> Self {
        match (libc::WTERMSIG(code), libc::WEXITSTATUS(code)) {
            (0, 0) => Self::Thread,
            (0, status) => Self::Exit(status),
            (signal, _) => Self::Killed(signal),
        }
    }
}

fn open(path: &CStr) -> Option<OwnDescriptor> {
    let (path, flags) = (path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
    // SAFETY: the path is a string.
    let fd = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) };
    let fd = check(fd).ok()?;
    // SAFETY: the kernel has just made it.
    Some(OwnDescriptor::new(unsafe { owned(fd) }))
}

fn read(file: &OwnDescriptor) -> Option<String> {
    let mut text = vec![0_u8; STATUS_BYTES];
    let (fd, at, len) = (file.as_raw_fd(), text.as_mut_ptr(), text.len());
    // SAFETY: the kernel writes at most `len` bytes.
    let read = unsafe { libc::syscall(libc::SYS_pread64, fd, at, len, 0_i64) };
    text.truncate(check(read).ok()? as usize);
    // The name of a program may be anything.
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// The last field of `/proc/self/stat`.
fn exit_code(text: &str) -> Option<c_int> {
    text.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Name:\thaproxy\nUmask:\t0022\nState:\tZ (zombie)\nTgid:\t7\nUid:\t65534\t0\t1\t65534\n\
         Gid:\t5\t6\t7\t8\nGroups:\t \nThreads:\t2\nCapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n\
         CapEff:\t0000000000001000\nCapBnd:\t0000000000000000\nSeccomp:\t0\n";

    #[test]
    fn a_status_is_read() {
        let status = LeaderStatus::parse(TEXT).unwrap();
        assert!(status.has_ended);
        assert_eq!((status.threads, status.users), (2, [65534, 0, 1]));
        assert_eq!(status.groups, [5, 6, 7]);
        assert_eq!(status.capabilities.permitted, 0x1ff_ffff_ffff);
        assert_eq!(status.capabilities.effective, 1 << 12);
        assert_eq!(LeaderStatus::parse("State:\tR\n"), None);
    }

    #[test]
    fn the_end_is_that_of_wait() {
        for (text, expected) in [
            ("7 (a b) Z 1 2 0", ProgramEnd::Thread),
            ("7 (a b) Z 1 2 768", ProgramEnd::Exit(3)),
            ("7 (a b) Z 1 2 31", ProgramEnd::Killed(libc::SIGSYS)),
        ] {
            let end = exit_code(text).map(ProgramEnd::of);
            assert_eq!(end, Some(expected), "{text}");
        }
        assert_eq!(exit_code(""), None);
    }

    #[test]
    fn this_process_runs_as_it_says_itself() {
        let leader = Leader::open().unwrap();
        let status = leader.look().unwrap();
        assert!(!status.has_ended && status.threads > 0);
        assert_eq!(status.users, super::super::users().unwrap());
        assert_eq!(leader.end(), ProgramEnd::Thread);
    }
}
