//! Which processes publish statistics, and which files are left over.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::mapping::sys;
use crate::names::parse_name;
use crate::process::process_start_time_ticks;
use crate::reader::SegmentFile;

/// A live process with a statistics file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub pid: u32,
    pub program: String,
    pub path: PathBuf,
}

/// The statistics files of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Of processes that run, lowest process id first.
    pub live: Vec<Published>,
    /// Of processes that are gone: the id is not in use, or is used by a younger process.
    pub stale: Vec<PathBuf>,
}

/// The processes that publish in `dir`, lowest process id first. Files of another layout, or that
/// this user may not read, are left out.
pub fn find_processes(dir: &Path) -> io::Result<Vec<Published>> {
    list_directory(dir).map(|listing| listing.live)
}

/// Looks at every `vmastat.<number>` in `dir`.
///
/// A file counts as stale only on evidence: a process id that does not exist, or a segment that was
/// made by an earlier holder of it. Files that cannot be read are in neither list.
pub fn list_directory(dir: &Path) -> io::Result<Listing> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir)? {
        let Ok(entry) = entry else { continue };
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(parse_name) else {
            continue;
        };
        let reader = SegmentFile::open_at(entry.path(), pid).and_then(SegmentFile::read);
        match (process_start_time_ticks(pid), reader) {
            // The id may be one of another PID namespace, whose process this one does not see.
            (None, _) if is_in_use(&entry.path()) => {}
            (None, _) => listing.stale.push(entry.path()),
            (Some(_), Ok(reader)) if reader.is_live() => listing.live.push(Published {
                pid,
                program: reader.process().program.clone(),
                path: entry.path(),
            }),
            (Some(_), Ok(_)) => listing.stale.push(entry.path()),
            (Some(_), Err(_)) => {}
        }
    }
    listing.live.sort_by_key(|process| process.pid);
    listing.stale.sort();
    Ok(listing)
}

/// The process ids in the names of a directory's statistics files.
pub(crate) fn publishers(dir: &Path) -> Vec<u32> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| parse_name(entry.file_name().to_str()?))
        .collect()
}

/// Whether a process has the file mapped.
fn is_in_use(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| sys::is_locked(&path))
}
