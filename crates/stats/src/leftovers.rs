//! What dead processes have left in the statistics directory: who is killed takes nothing away.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::mapping::sys;
use crate::{control, names};

/// Most files that one call removes.
const REMOVED_MAX: usize = 64;
/// Most entries of the directory that it looks at, which may be everybody's.
const LOOKED_AT_MAX: usize = 4096;

/// Removes statistics files of processes that have ended, of any version of the library, with their
/// control sockets: 64 at most. They are this process's user's; root removes everybody's. Returns
/// how many.
///
/// Nothing is removed that a process has open or mapped with the library's lock, nor what has the
/// number of a process that runs: a younger one removes it when it makes its own. A process of
/// another PID namespace that has no such lock cannot be told from a dead one. May change errno.
pub fn remove_leftovers(dir: &Path) -> usize {
    // Without it every process seems dead.
    if sys::file_id_at(c"/proc/self/stat").is_err() {
        return 0;
    }
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut removed = 0;
    for entry in entries.take(LOOKED_AT_MAX) {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(names::parse_name) else {
            continue;
        };
        let Ok(path) = CString::new(entry.path().as_os_str().as_bytes()) else {
            continue;
        };
        if is_running(pid) || !sys::is_own_regular_file(&path) || sys::is_locked(&path) {
            continue;
        }
        if sys::unlink(&path).is_ok() {
            if let Some(control) = control::control_path(&path) {
                let _ = sys::unlink(&control);
            }
            removed += 1;
        }
        if removed == REMOVED_MAX {
            break;
        }
    }
    removed
}

/// Whether a process has the number, be it dead and not waited for yet.
fn is_running(pid: u32) -> bool {
    CString::new(format!("/proc/{pid}")).is_ok_and(|path| sys::file_id_at(&path).is_ok())
}
