//! Makes room for the program where the library has a descriptor of its own.

use std::time::{Duration, Instant};

use descriptors::own;
use libc::{c_int, timespec};

use crate::guard::{Inside, contained, errno, set_errno};
use crate::process_state;

/// How long to wait for those that may still use the old number. Each takes microseconds, but one
/// that has the CPU taken from it, or opens an interface.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK_INTERVAL_NSEC: i64 = 20_000;

/// Has the library's descriptor take another number. The old one is still open, for the caller to
/// replace or close. If it is not the library's any more, that is as good.
///
/// # Errors
/// The errno where the process has no other number left.
pub(crate) fn make(number: c_int) -> Result<(), c_int> {
    let until = Instant::now() + PATIENCE;
    let left = loop {
        match contained(|| own::move_away(number)) {
            Ok(Ok(left)) => break left,
            Ok(Err(Some(errno))) => return Err(errno),
            Ok(Err(None)) if !own::contains(number) => return Ok(()),
            // Another thread is at it.
            Ok(Err(None)) if Instant::now() < until => pause(),
            Ok(Err(None)) | Err(_) => return Err(libc::EBUSY),
        }
    };
    let engine = process_state::engine();
    let mut users = engine.and_then(|engine| contained(|| engine.descriptor_has_moved()).ok());
    let mut inside = contained(Inside::now).ok();
    let mut is_unused = || {
        let asleep = engine.zip(users.as_mut()).is_none_or(|(engine, users)| {
            contained(|| engine.old_number_is_unused(users)) == Ok(true)
        });
        asleep & inside.as_mut().is_none_or(Inside::have_left)
    };
    while !is_unused() && Instant::now() < until {
        pause();
    }
    let _ = contained(|| {
        users.into_iter().for_each(|users| users.give_up());
        left.vacate();
    });
    Ok(())
}

/// Not a cancellation point, as dup2(2) is none.
fn pause() {
    let saved = errno();
    let time = timespec {
        tv_sec: 0,
        tv_nsec: LOOK_INTERVAL_NSEC,
    };
    let (time, left) = (&raw const time, std::ptr::null_mut::<timespec>());
    // SAFETY: the kernel reads one timespec.
    unsafe { libc::syscall(libc::SYS_nanosleep, time, left) };
    set_errno(saved);
}
