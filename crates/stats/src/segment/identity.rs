//! What the header says.

use std::sync::atomic::Ordering;

use crate::layout::{Header, LAYOUT_MAJOR, LAYOUT_MINOR, MAGIC, SectionRow, bytes_of};
use crate::mapping::sys;
use crate::plan::Plan;
use crate::process;
use crate::sections::SECTIONS;

/// What the header says about the process, beside its id and start time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Version of the library, at most 64 bytes of it are kept.
    pub library_version: String,
    /// Name of the program, at most 64 bytes of it are kept.
    pub program: String,
}

impl Identity {
    /// With the name that the process has for `ps` (`/proc/self/comm`, 15 bytes at most), which is
    /// that of a symbolic link by which the program was started and not of what that leads to; an
    /// empty one where /proc is not mounted.
    pub fn of_this_process(library_version: &str) -> Self {
        let mut buffer = [0; 64];
        let name = sys::open_for_reading(c"/proc/self/comm");
        let name = name.and_then(|fd| sys::read(&fd, &mut buffer));
        let name = String::from_utf8_lossy(name.unwrap_or_default());
        Self {
            library_version: library_version.to_owned(),
            program: name.trim_end().replace(char::is_control, "?"),
        }
    }
}

pub(super) fn write_header(header: &Header, plan: &Plan, pid: u32, identity: &Identity) {
    header.major.store(LAYOUT_MAJOR, Ordering::Relaxed);
    header.minor.store(LAYOUT_MINOR, Ordering::Relaxed);
    header
        .total_bytes
        .store(plan.total_bytes as u64, Ordering::Relaxed);
    header.pid.store(pid, Ordering::Relaxed);
    let rows = u32::try_from(SECTIONS.len()).unwrap_or(0);
    header.table_rows.store(rows, Ordering::Relaxed);
    header
        .start_time_ticks
        .store(own_start_time_ticks().unwrap_or(0), Ordering::Relaxed);
    header
        .table_offset
        .store(plan.table_offset, Ordering::Relaxed);
    header
        .table_row_bytes
        .store(bytes_of::<SectionRow>(), Ordering::Relaxed);
    header.library_version.set(&identity.library_version);
    header.program.set(&identity.program);
    // Last: from here on readers accept the segment.
    header.magic.store(MAGIC, Ordering::Release);
}

fn own_start_time_ticks() -> Option<u64> {
    let fd = sys::open_for_reading(c"/proc/self/stat").ok()?;
    // The start time is the 22nd of some fifty numbers; the whole line is rarely 400 bytes.
    let mut buffer = [0; 2048];
    let status = process::parse_stat(sys::read(&fd, &mut buffer).ok()?)?;
    Some(status.start_time_ticks)
}
