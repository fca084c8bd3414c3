//! Mappings of files, and what becomes of them when the file is cut.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use super::{Fd, check};

/// Pages get memory as they are used. On a disk's file system the kernel would otherwise read ahead
/// at the first use, and fill all of a large file with zeros: 11 ms for six megabytes.
pub(crate) fn map_shared(fd: &Fd, bytes: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let base = map(bytes, protection, libc::MAP_SHARED, fd.0, 0)?;
    // SAFETY: advice about the mapping made above.
    unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_RANDOM) };
    Ok(base)
}

pub(crate) fn map_for_reading(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<NonNull<u8>> {
    map(bytes, libc::PROT_READ, libc::MAP_SHARED, fd.as_raw_fd(), 0)
}

/// Address space for a part of a file that nobody may use yet.
pub(crate) fn map_reserved(fd: &Fd, offset: usize, bytes: usize) -> io::Result<NonNull<u8>> {
    let offset = libc::off_t::try_from(offset).map_err(|_| too_large())?;
    map(bytes, libc::PROT_NONE, libc::MAP_SHARED, fd.0, offset)
}

/// From here on it can be read and written.
pub(crate) fn make_writable(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: callers own the mapping, which is memory of a file.
    let result = unsafe { libc::mprotect(base.as_ptr().cast(), bytes, protection) };
    check(c_long::from(result)).map(drop)
}

/// Takes the memory of whole pages out of their file: they are zeros then. Where the file system
/// cannot do that, they keep it.
pub(crate) fn remove(base: NonNull<u8>, bytes: usize) {
    // SAFETY: callers own the mapping, whose octets may change at any time.
    let _ = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_REMOVE) };
}

fn too_large() -> io::Error {
    io::Error::from_raw_os_error(libc::EFBIG)
}

fn map(
    bytes: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
    let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, offset) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(address.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// A word of zeros that a forked child finds zero again (`MADV_WIPEONFORK`), in memory that is
/// never unmapped.
pub(crate) fn wiped_word() -> Option<&'static AtomicU32> {
    let bytes = size_of::<AtomicU32>();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let word = map(
        bytes,
        protection,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        -1,
        0,
    )
    .ok()?;
    // SAFETY: the range is the mapping made above.
    let result = unsafe { libc::madvise(word.as_ptr().cast(), bytes, libc::MADV_WIPEONFORK) };
    if result != 0 {
        unmap(word, bytes);
        return None;
    }
    // SAFETY: a page of zeros that nobody else knows and that stays mapped.
    Some(unsafe { word.cast().as_ref() })
}

pub(crate) fn unmap(base: NonNull<u8>, bytes: usize) {
    // SAFETY: callers own the mapping and use it no more.
    let _ = unsafe { libc::munmap(base.as_ptr().cast(), bytes) };
}

/// Whether the kernel knows [`populate`]: since Linux 5.14.
pub(crate) fn can_populate() -> bool {
    populate(ptr::null(), 0).is_ok()
}

/// Gives every page of a range memory, for writing. An error where that would have been a SIGBUS:
/// there is none to be had.
pub(crate) fn populate(base: *const u8, bytes: usize) -> io::Result<()> {
    // SAFETY: takes a number.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let before = base.addr() % page;
    let first = base.wrapping_sub(before).cast_mut().cast();
    // SAFETY: changes no contents.
    let result = unsafe { libc::madvise(first, before + bytes, libc::MADV_POPULATE_WRITE) };
    check(c_long::from(result)).map(drop)
}

/// Puts zeros of this process alone in the place of a mapping. Async-signal-safe.
pub(crate) fn map_zeros_over(base: usize, bytes: usize, writable: bool) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let write = if writable { libc::PROT_WRITE } else { 0 };
    let address = ptr::with_exposed_provenance_mut(base);
    // SAFETY: the caller names a mapping of this crate, whose memory is read and written by atomics
    // only, as what takes its place.
    let mapped = unsafe { libc::mmap(address, bytes, libc::PROT_READ | write, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Installs a handler for `SIGBUS`. Where `survives` says no, the signal has its default action.
pub(crate) fn handle_bus_errors(survives: fn(usize) -> bool) -> io::Result<()> {
    static SURVIVES: OnceLock<fn(usize) -> bool> = OnceLock::new();
    extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: the kernel passes a siginfo to a handler installed with SA_SIGINFO.
        let fault = unsafe { info.as_ref() }
            .filter(|info| info.si_code > 0)
            // SAFETY: that of a fault has an address.
            .map(|info| unsafe { info.si_addr() }.addr());
        if fault.is_some_and(|address| SURVIVES.get().is_some_and(|survives| survives(address))) {
            return;
        }
        // A fault comes again; what somebody has sent is sent again.
        // SAFETY: integers.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        if fault.is_none() {
            // SAFETY: as above.
            unsafe { libc::raise(signal) };
        }
    }
    let _ = SURVIVES.set(survives);
    // SAFETY: all-zero is a value of this struct: an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the struct is valid for the call.
    let result = unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) };
    check(c_long::from(result)).map(drop)
}
