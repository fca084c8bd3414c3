//! Whether pages of the program can be used: asked of the kernel by calls that change nothing.

use std::ptr;
use std::sync::atomic::AtomicU32;

use libc::{c_int, c_long, c_void};

use super::{Errno, check};

/// A word that nobody waits for.
static UNUSED_FUTEX: AtomicU32 = AtomicU32::new(0);

/// Whether the page at `address` of the program can be used; `None` where madvise(2) does not say: it answers one error for memory
/// that is only to be read, of a kind of its own, and before Linux 5.14.
fn can_populate(address: usize, advice: c_int) -> Option<bool> {
    const PAGE_BYTES: usize = 4096;
    let page = ptr::without_provenance_mut::<c_void>(address & !(PAGE_BYTES - 1));
    // SAFETY: the kernel maps the page, as using it would, and changes nothing that the program
    // could see.
    match keeping_errno(|| unsafe { libc::syscall(libc::SYS_madvise, page, PAGE_BYTES, advice) }) {
        Ok(_) => Some(true),
        Err(Errno(libc::ENOMEM | libc::EFAULT)) => Some(false),
        Err(_) => None,
    }
}

/// Whether eight bytes of the program at `address` can be read.
pub fn can_read(address: usize) -> bool {
    can_populate(address, libc::MADV_POPULATE_READ).unwrap_or_else(|| is_read(address))
}

/// Whether four bytes of the program at `address`, which is aligned, can be written.
pub fn can_write(address: usize) -> bool {
    can_populate(address, libc::MADV_POPULATE_WRITE).unwrap_or_else(|| is_written(address))
}

/// The kernel reads the bytes before it refuses what is asked for.
fn is_read(address: usize) -> bool {
    const NO_WAY: c_int = -1;
    let (address, none) = (
        ptr::without_provenance::<u64>(address),
        ptr::null_mut::<u64>(),
    );
    let size = size_of::<u64>();
    keeping_errno(|| {
        // SAFETY: the kernel reads eight bytes, if it can, and changes nothing.
        unsafe { libc::syscall(libc::SYS_rt_sigprocmask, NO_WAY, address, none, size) }
    }) != Err(Errno(libc::EFAULT))
}

/// The kernel writes what is there, atomically.
fn is_written(address: usize) -> bool {
    /// `FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0x5a5)`
    const OR_NOTHING: c_long = 2 << 28 | 0x5a5;
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    let address = ptr::without_provenance_mut::<u32>(address);
    let unused = UNUSED_FUTEX.as_ptr();
    keeping_errno(|| {
        // SAFETY: the kernel changes nothing at the address, and nobody waits for the unused word.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                unused,
                operation,
                0,
                0,
                address,
                OR_NOTHING,
            )
        }
    }) != Err(Errno(libc::EFAULT))
}

fn keeping_errno(call: impl FnOnce() -> c_long) -> Result<c_long, Errno> {
    // SAFETY: no preconditions.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the C library gives every thread a valid location.
    let saved = unsafe { errno.read() };
    let result = check(call());
    // SAFETY: as above.
    unsafe { errno.write(saved) };
    result
}
