//! Numbers for the library's own descriptors.

use std::os::fd::{IntoRawFd, OwnedFd, RawFd};

/// Where the library's own descriptors end, if the limit on descriptors allows.
const USUAL_END: RawFd = 1024;
/// How many numbers are meant for them.
const ROOM: RawFd = 24;

/// Makes a copy of a descriptor, closed on exec, with the highest free number below 1024, or below
/// a lower limit: the program sees the numbers that it would see without the library, and the
/// kernel's table does not grow beyond what a program's `fd_set` has room for. `None`: no number
/// above the descriptor's own is left there. The kernel is not asked for numbers that are known as
/// `taken`.
fn duplicate_out_of_the_way(fd: RawFd, taken: impl Fn(RawFd) -> bool) -> Option<RawFd> {
    let number = (fd + 1..end_of_numbers())
        .rev()
        .find(|number| !taken(*number) && is_free(*number))?;
    let command = libc::F_DUPFD_CLOEXEC;
    // Higher only if the program itself takes all numbers from there on meanwhile.
    // SAFETY: fcntl with an integer argument.
    let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, number) };
    RawFd::try_from(copy).ok().filter(|copy| *copy >= 0)
}

/// The same without questions where the numbers below 1024 are free that are not `taken`; else any
/// number at all.
pub(crate) fn duplicate_to_end(fd: RawFd, taken: impl Fn(RawFd) -> bool) -> Option<RawFd> {
    let number = (fd + 1..USUAL_END).rev().find(|number| !taken(*number));
    let copy = number.and_then(|number| {
        // SAFETY: fcntl with an integer argument.
        let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, number) };
        RawFd::try_from(copy).ok().filter(|copy| *copy >= 0)
    });
    match copy {
        Some(copy) if copy < USUAL_END => Some(copy),
        Some(copy) => {
            // The program has all of those.
            // SAFETY: closing touches no memory, and nobody has seen the number.
            unsafe { libc::syscall(libc::SYS_close, copy) };
            duplicate_anywhere(fd).ok()
        }
        // They are beyond the limit.
        None => duplicate_out_of_the_way(fd, taken).or_else(|| duplicate_anywhere(fd).ok()),
    }
}

/// The same with any number, one thread at a time; the errno where there is none. The kernel's
/// table grows only if all numbers are taken that it has room for.
pub(crate) fn duplicate_anywhere(fd: RawFd) -> Result<RawFd, i32> {
    let end = end_of_numbers();
    let command = libc::F_DUPFD_CLOEXEC;
    let number = (0..end).rev().find(|number| is_free(*number));
    // SAFETY: fcntl with an integer argument.
    let copy = unsafe { libc::syscall(libc::SYS_fcntl, fd, command, number.unwrap_or(end)) };
    RawFd::try_from(copy)
        .ok()
        .filter(|copy| *copy >= 0)
        .ok_or_else(|| {
            let error = std::io::Error::last_os_error();
            // What F_DUPFD_CLOEXEC says of a number beyond the limit.
            error
                .raw_os_error()
                .filter(|errno| *errno != libc::EINVAL)
                .unwrap_or(libc::EMFILE)
        })
}

fn is_free(fd: RawFd) -> bool {
    // SAFETY: fcntl with F_GETFD takes no pointer.
    unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) < 0 }
}

/// Gives a descriptor such a number. Where none is left it stays where it is. One thread at a time.
pub(crate) fn move_out_of_the_way(fd: OwnedFd, taken: impl Fn(RawFd) -> bool) -> RawFd {
    let fd = fd.into_raw_fd();
    let Some(copy) = duplicate_out_of_the_way(fd, taken) else {
        return fd;
    };
    // Not by dropping: what the C library's close(2) leads to may be the library's own hook.
    // SAFETY: closing touches no memory, and the descriptor was the caller's.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    copy
}

/// Where the descriptors of the library begin, unless they are many.
pub fn lowest_number() -> RawFd {
    (end_of_numbers() - ROOM).max(0)
}

/// How many descriptors the library may keep for what the program has closed: a sixteenth of the
/// numbers, so that the program meets its limit hardly earlier.
pub fn room_for_closed() -> usize {
    usize::try_from(end_of_numbers() / 16).unwrap_or(0)
}

fn end_of_numbers() -> RawFd {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the kernel writes one limit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0;
    if known {
        end_within(limit.rlim_cur)
    } else {
        USUAL_END
    }
}

fn end_within(limit: libc::rlim_t) -> RawFd {
    RawFd::try_from(limit).map_or(USUAL_END, |limit| limit.min(USUAL_END))
}

/// How many descriptors the kernel's table of this process has room for, open or not. `None`: there
/// is no `/proc`.
pub fn table_size() -> Option<RawFd> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let size = status
        .lines()
        .find_map(|line| line.strip_prefix("FDSize:"))?;
    size.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, FromRawFd};

    use super::*;

    fn moved(fd: OwnedFd) -> OwnedFd {
        // SAFETY: nobody else has it.
        unsafe { OwnedFd::from_raw_fd(move_out_of_the_way(fd, |_| false)) }
    }

    #[test]
    fn low_limits_leave_their_last_numbers() {
        assert_eq!(end_within(libc::RLIM_INFINITY), 1024);
        assert_eq!(end_within(1_000_000), 1024);
        assert_eq!(end_within(256), 256);
        assert_eq!(end_within(10), 10);
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
        let moved = moved(reader.into());
        assert!(moved.as_raw_fd() > old);
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
