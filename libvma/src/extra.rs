//! The extra API (`mellanox/vma_extra.h`): a table of functions, which programs find by
//! `getsockopt(2)`. The functions are hooks like others, without a call of the C library behind
//! them.

mod buffers;
mod callback;
mod modify_ring;
mod network_header;
mod packets;
mod profiles;
mod program_memory;
mod socket_options;
mod table;
pub(crate) mod thread_offload;
mod unsupported;
mod xtreme;

use std::ffi::CStr;

use engine::user_memory::{is_readable, is_writable};
use libc::{c_char, c_int, c_void, socklen_t};
use vma_api::abi::Table;

pub(crate) use program_memory::program_memory;
pub(crate) use socket_options::{get_option, set_option};
pub(crate) use thread_offload::follow_thread;

use crate::guard::{contained, fail};
use crate::start;

/// Answers `getsockopt(2)` for the table. `None`: there is no room for its address, as the kernel
/// says.
///
/// # Safety
/// The pointers must be the caller's own.
pub(crate) unsafe fn give_table(value: *mut c_void, len: *mut socklen_t) -> Option<c_int> {
    if !is_readable(len, size_of::<socklen_t>()) {
        return None;
    }
    // SAFETY: readable (checked above), and the caller's own.
    let room = unsafe { len.read_unaligned() } as usize;
    if room < size_of::<*const Table>() || !is_writable(value, size_of::<*const Table>()) {
        return None;
    }
    let table: *const Table = &raw const table::TABLE;
    // SAFETY: writable (checked above), and the caller's own.
    unsafe { value.cast::<*const Table>().write_unaligned(table) };
    Some(0)
}

/// Puts a rule in front of all others.
unsafe extern "C" fn add_conf_rule(line: *const c_char) -> c_int {
    if line.is_null() {
        return fail(libc::EINVAL);
    }
    // SAFETY: a string of the program's, by the API's contract.
    let line = unsafe { CStr::from_ptr(line) }.to_string_lossy();
    let added = contained(|| {
        let engine = start::start()?;
        let added = engine.add_rules(&line);
        if let Err(error) = &added {
            log::warn!("rule \"{line}\": {error}");
        }
        added.ok()
    });
    match added {
        Ok(Some(())) => 0,
        _ => fail(libc::EINVAL),
    }
}

/// Writes counters into the log.
unsafe extern "C" fn dump_fd_stats(fd: c_int, log_level: c_int) -> c_int {
    let Some(level) = level_of(log_level) else {
        return 0;
    };
    let dumped = contained(|| {
        let lines = crate::process_state::engine()?.statistics_of(fd)?;
        lines.iter().for_each(|line| log::log!(level, "{line}"));
        Some(())
    });
    match dumped {
        Ok(Some(())) => 0,
        _ => fail(libc::EINVAL),
    }
}

/// `vlog_levels_t`. `None`: nothing is logged.
fn level_of(log_level: c_int) -> Option<log::Level> {
    Some(match log_level {
        ..0 => return None,
        0 | 1 => log::Level::Error,
        2 => log::Level::Warn,
        3 | 4 => log::Level::Info,
        5 => log::Level::Debug,
        6.. => log::Level::Trace,
    })
}
