//! Calls in the log.

use libc::c_int;

use crate::guard::{contained, errno};
use crate::runtime;

/// Shows a call on a socket of ours in the log at level debug, as `strace(1)` would, and passes its
/// result on.
#[inline]
pub(super) fn traced(name: &str, fd: c_int, result: c_int) -> c_int {
    if log::log_enabled!(log::Level::Debug) {
        show(name, fd, result);
    }
    result
}

#[cold]
fn show(name: &str, fd: c_int, result: c_int) {
    if runtime::look_up(fd).is_none() {
        return;
    }
    let errno = errno();
    let _ = contained(|| match result {
        0.. => log::debug!("{name}(fd {fd}) = {result}"),
        _ => log::debug!("{name}(fd {fd}) = {result}, errno {errno}"),
    });
}
