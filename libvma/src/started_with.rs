//! Sockets that the program was started with (execve(2)), as by a shell or by a server that starts
//! helpers. Another process may have them past the kernel, the one that started the program in most
//! cases. All that is left of it here are the numbers: at the first use of one the owner is asked
//! for the socket (`engine/src/process/door.rs`). Most programs are started with none.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use descriptors::DescriptorTable;
use libc::{c_int, c_uint};

use crate::guard;

/// Not started with, or asked for.
const NONE: u8 = 0;
const DATAGRAM: u8 = 1;
const STREAM: u8 = 2;

static KINDS: DescriptorTable<AtomicU8> = DescriptorTable::new();
static HAS_ANY: AtomicBool = AtomicBool::new(false);

/// Whether there was any that was not asked for at once.
#[inline]
pub(crate) fn has_any() -> bool {
    HAS_ANY.load(Ordering::Relaxed)
}

/// Looks what the program was started with: at its beginning, once.
pub(crate) fn look() {
    const DIRECTORY: c_int = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let path = c"/proc/self/fd".as_ptr();
    // SAFETY: the path is a string.
    let directory = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, DIRECTORY) };
    let Ok(directory) = c_int::try_from(directory) else {
        return;
    };
    if directory < 0 {
        return;
    }
    let mut entries = Entries([0; 2048]);
    loop {
        let (at, len) = (entries.0.as_mut_ptr(), entries.0.len());
        // SAFETY: writable for its length.
        let len = unsafe { libc::syscall(libc::SYS_getdents64, directory, at, len) };
        let Some(read) = usize::try_from(len).ok().filter(|len| *len > 0) else {
            break;
        };
        entries.numbers(read).for_each(take_note);
    }
    // SAFETY: it is ours.
    unsafe { libc::syscall(libc::SYS_close, directory) };
}

/// What getdents64(2) writes.
#[repr(C, align(8))]
struct Entries([u8; 2048]);

impl Entries {
    /// Names that are numbers.
    fn numbers(&self, len: usize) -> impl Iterator<Item = c_int> {
        /// Of an entry: its length, and its name, which ends with a null byte (`struct
        /// linux_dirent64`).
        const LENGTH_AT: usize = 16;
        const NAME_AT: usize = 19;
        let mut rest = self.0.get(..len).unwrap_or_default();
        std::iter::from_fn(move || {
            let length = rest.get(LENGTH_AT..LENGTH_AT + 2)?;
            let length = u16::from_ne_bytes([*length.first()?, *length.get(1)?]);
            let (entry, behind) = rest.split_at_checked(length.into())?;
            rest = behind;
            let name = entry.get(NAME_AT..)?.split(|byte| *byte == 0).next()?;
            Some(
                std::str::from_utf8(name)
                    .ok()
                    .and_then(|it| it.parse().ok()),
            )
        })
        .flatten()
    }
}

fn take_note(fd: c_int) {
    let option = |name: c_int| {
        let (mut value, mut len): (c_int, _) = (0, size_of::<c_int>() as libc::socklen_t);
        let (at, room) = (&raw mut value, &raw mut len);
        let (call, level) = (libc::SYS_getsockopt, libc::SOL_SOCKET);
        // SAFETY: the kernel writes at most `len` bytes to `value`.
        let result = unsafe { libc::syscall(call, fd, level, name, at, room) };
        (result == 0).then_some(value)
    };
    let kind = match option(libc::SO_PROTOCOL) {
        Some(libc::IPPROTO_TCP) => STREAM,
        Some(libc::IPPROTO_UDP) => DATAGRAM,
        _ => return,
    };
    if matches!(
        option(libc::SO_DOMAIN),
        Some(libc::AF_INET | libc::AF_INET6)
    ) && let Some(place) = KINDS.get_or_make(fd)
    {
        place.store(kind, Ordering::Relaxed);
        HAS_ANY.store(true, Ordering::Relaxed);
    }
}

fn kind(fd: c_int) -> Option<&'static AtomicU8> {
    let kind = KINDS.get(fd)?;
    (kind.load(Ordering::Relaxed) != NONE).then_some(kind)
}

/// A descriptor is about to be used for what only the kernel's socket can do, or its owner.
#[inline]
pub(crate) fn ask_if_inherited(fd: c_int) {
    if has_any() && kind(fd).is_some() {
        ask(fd);
    }
}

/// The same of a stream: its octets are in order, so that it is asked for before whatever is done
/// with it.
#[inline]
pub(crate) fn stream_is_used(fd: c_int) {
    if has_any() && kind(fd).is_some_and(|kind| kind.load(Ordering::Relaxed) == STREAM) {
        ask(fd);
    }
}

/// Several threads may ask; the later ones wait as long.
#[cold]
fn ask(fd: c_int) {
    let asked = guard::contained(|| engine::ask_for_started_with(fd));
    if asked.is_ok()
        && !crate::process_state::is_vfork_child()
        && let Some(kind) = kind(fd)
    {
        kind.store(NONE, Ordering::Relaxed);
    }
}

/// All that are left are about to be used in a way that no hook sees.
pub(crate) fn all_are_used() {
    if has_any() {
        for (fd, _) in KINDS.range(0, c_uint::MAX) {
            ask_if_inherited(fd);
        }
    }
}

/// A program that cannot ask is about to be executed: what it inherits is asked for before.
pub(crate) fn are_inherited(can_ask: impl Fn() -> bool) {
    if !has_any() {
        return;
    }
    for (fd, _) in KINDS.range(0, c_uint::MAX) {
        if kind(fd).is_some() && !closes_on_exec(fd) {
            if can_ask() {
                return;
            }
            ask(fd);
        }
    }
}

/// Whether it is closed now, or by execve(2).
fn closes_on_exec(fd: c_int) -> bool {
    // SAFETY: integers.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) };
    flags < 0 || flags & libc::c_long::from(libc::FD_CLOEXEC) != 0
}

/// Descriptors from `first` to `last` are closed, or stand for something else from here on.
pub(crate) fn close(first: c_uint, last: c_uint) {
    for (_, kind) in KINDS.range(first, last) {
        kind.store(NONE, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn internet_sockets_are_found_and_forgotten() {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = std::os::unix::net::UnixDatagram::unbound().unwrap();
        look();
        let known = |fd| kind(fd).map(|kind| kind.load(Ordering::Relaxed));
        assert!(has_any());
        assert_eq!(known(stream.as_raw_fd()), Some(STREAM));
        assert_eq!(known(datagrams.as_raw_fd()), Some(DATAGRAM));
        assert_eq!(known(other.as_raw_fd()), None);
        let number = stream.as_raw_fd().cast_unsigned();
        close(number, number);
        assert_eq!(known(stream.as_raw_fd()), None);
        assert_eq!(known(datagrams.as_raw_fd()), Some(DATAGRAM));
    }
}
