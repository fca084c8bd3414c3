//! Calls with which programs install filters of system calls.

use libc::{c_int, c_long, c_ulong, c_void};

use super::define::hook;
use crate::{filters, real};

const FILTER_MODE: c_ulong = 2;
const STRICT_MODE: c_ulong = 1;

hook! {
    /// `prctl(2)`. It takes its arguments in the same registers whether they are variadic or not.
    fn prctl(option: c_int, first: c_ulong, second: c_ulong, third: c_ulong, fourth: c_ulong) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { process_control(option, first, second) };
        // SAFETY: the arguments are the caller's own.
        unsafe { real::prctl(option, first, second, third, fourth) }
    }
}

/// # Safety
/// The arguments must be those of a `prctl(2)` of the program's.
#[inline]
unsafe fn process_control(option: c_int, first: c_ulong, second: c_ulong) {
    match (option, first) {
        (libc::PR_SET_SECCOMP, FILTER_MODE) => {
            let program = second as usize as *const c_void;
            // SAFETY: the caller's promise.
            unsafe { filters::comes(program) };
        }
        (libc::PR_SET_SECCOMP, STRICT_MODE) => filters::strict_mode_comes(),
        _ => {}
    }
}

/// `seccomp(2)` and `prctl(2)` by number; the C library has no function for the first.
///
/// # Safety
/// That of the system call of this number.
pub(super) unsafe fn by_number(number: c_long, arguments: [c_long; 5]) {
    const SET_MODE_STRICT: c_long = 0;
    const SET_MODE_FILTER: c_long = 1;
    let [operation, flags, pointer, ..] = arguments;
    match (number, operation) {
        (libc::SYS_prctl, option) => {
            let (first, second) = (flags.cast_unsigned(), pointer.cast_unsigned());
            // SAFETY: the caller's promise.
            unsafe { process_control(option as c_int, first, second) };
        }
        (libc::SYS_seccomp, SET_MODE_FILTER) => {
            // SAFETY: the caller's promise.
            unsafe { filters::comes(pointer as *const c_void) };
        }
        (libc::SYS_seccomp, SET_MODE_STRICT) if flags == 0 && pointer == 0 => {
            filters::strict_mode_comes();
        }
        _ => {}
    }
}
