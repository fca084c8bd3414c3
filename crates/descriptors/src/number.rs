//! Numbers for the library's own descriptors.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Where the library's own descriptors begin, if the limit on descriptors allows.
const USUAL: RawFd = 1000;
/// How many numbers a lower limit leaves for them: as many as 1000 leaves of the usual 1024.
const ROOM: libc::rlim_t = 24;

/// Makes a copy of a descriptor, closed on exec, at 1000 or above, or near the end of a lower limit, so that the program sees the
/// numbers it would see without the library. `None`: no number is left there.
pub fn duplicate_out_of_the_way(fd: RawFd) -> Option<RawFd> {
    let command = libc::F_DUPFD_CLOEXEC;
    // SAFETY: fcntl with an integer argument.
    let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, lowest_number()) };
    RawFd::try_from(copy).ok().filter(|copy| *copy >= 0)
}

/// Gives a descriptor such a number. Where none is left it stays where it is.
pub fn move_out_of_the_way(fd: OwnedFd) -> OwnedFd {
    match duplicate_out_of_the_way(fd.as_raw_fd()) {
        // SAFETY: the descriptor is new and nobody else's.
        Some(copy) => unsafe { OwnedFd::from_raw_fd(copy) },
        None => fd,
    }
}

/// Where the descriptors of the library begin.
pub fn lowest_number() -> RawFd {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known {
        lowest_below(limit.rlim_cur)
    } else {
        USUAL
    }
}

fn lowest_below(limit: libc::rlim_t) -> RawFd {
    RawFd::try_from(limit.saturating_sub(ROOM)).map_or(USUAL, |lowest| lowest.min(USUAL))
}

/// How many descriptors the kernel's table of this process has room for, open or not. `None`: there is no `/proc`.
pub fn table_size() -> Option<RawFd> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("FDSize:"))?;
    size.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_limits_leave_their_last_numbers() {
        assert_eq!(lowest_below(libc::RLIM_INFINITY), 1000);
        assert_eq!(lowest_below(1024), 1000);
        assert_eq!(lowest_below(256), 232);
        assert_eq!(lowest_below(10), 0);
    }

    #[test]
    fn the_table_has_room_for_what_is_open() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(table_size().unwrap() > reader.as_raw_fd());
    }

    #[test]
    fn a_moved_descriptor_is_the_same_file_and_closed_on_exec() {
        let (reader, writer) = std::io::pipe().unwrap();
        let old = reader.as_raw_fd();
        let moved = move_out_of_the_way(reader.into());
        assert!(moved.as_raw_fd() >= 1000 || moved.as_raw_fd() > old);
        // SAFETY: fcntl without an argument.
        let flags = unsafe { libc::fcntl(moved.as_raw_fd(), libc::F_GETFD) };
        assert_eq!(flags, libc::FD_CLOEXEC);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::fcntl(old, libc::F_GETFD) }, -1);
        drop(writer);
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(moved), &mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
