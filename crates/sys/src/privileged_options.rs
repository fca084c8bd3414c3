//! Somebody who sets options of sockets for a process that may not.

use std::os::fd::BorrowedFd;
use std::sync::{PoisonError, RwLock};

use libc::c_int;

use super::Errno;

/// Stands for no option: the socket is to be bound to the address of a listener of this process's.
pub const BIND: c_int = 200;

/// Sets an option of a socket to a value: `TCP_REPAIR`, a route that loses all packets,
/// `SO_ATTACH_FILTER` to instructions of eight octets, or [`BIND`] to a `struct sockaddr`. An error
/// is the system's, or `EPERM` where nobody can.
type Helper = Box<dyn Fn(BorrowedFd<'_>, c_int, &[u8]) -> Result<(), Errno> + Send + Sync>;

static HELPER: RwLock<Option<Helper>> = RwLock::new(None);

/// From here on this one is asked.
pub fn set_options_through(
    helper: impl Fn(BorrowedFd<'_>, c_int, &[u8]) -> Result<(), Errno> + Send + Sync + 'static,
) {
    let mut known = HELPER.write().unwrap_or_else(PoisonError::into_inner);
    *known = Some(Box::new(helper));
}

/// Whether there is one.
pub fn has_helper_for_options() -> bool {
    let known = HELPER.read().unwrap_or_else(PoisonError::into_inner);
    known.is_some()
}

pub(crate) fn ask(fd: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
    let known = HELPER.read().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        // SAFETY: the caller has it open for the length of this call.
        Some(helper) => helper(unsafe { BorrowedFd::borrow_raw(fd) }, name, value),
        None => Err(Errno(libc::EPERM)),
    }
}
