//! Which processes publish statistics, and which files are left over.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::FILE_PREFIX;
use crate::mapping::sys;
use crate::reader::{Reader, SegmentFile};

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

/// The users that a process acts for: real, effective, saved and for files. `None`: no such process
/// runs.
pub(crate) fn process_users(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users
        .split_whitespace()
        .map(|user| user.parse().ok())
        .collect()
}

/// When a process started, clock ticks since boot, or `None` when no such process runs. A process
/// that ended and waits for its parent does not count.
pub fn process_start_time_ticks(pid: u32) -> Option<u64> {
    let status = parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)?;
    let ended = matches!(status.state, b'Z' | b'X' | b'x');
    (!ended).then_some(status.start_time_ticks)
}

/// What the first line of /proc/PID/stat says (`man 5 proc_pid_stat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: u8,
    pub(crate) start_time_ticks: u64,
}

/// The program's name is in parentheses and may itself hold spaces and parentheses, so fields are
/// counted from the last one that closes.
pub(crate) fn parse_stat(line: &[u8]) -> Option<Stat> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    let mut fields = line
        .get(name_end + 1..)?
        .split(|byte| *byte == b' ')
        .skip(1);
    let state = *fields.next()?.first()?;
    // The state is field 3, the start time field 22.
    let start_time = fields.nth(22 - 3 - 1)?;
    let start_time_ticks = std::str::from_utf8(start_time).ok()?.parse().ok()?;
    Some(Stat {
        state,
        start_time_ticks,
    })
}

/// The path of a process's segment.
pub(crate) fn segment_path(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!("{FILE_PREFIX}{pid}"))
}

/// The paths of segments that a process may have made because somebody else has the name of
/// [`segment_path`].
pub(crate) fn other_segment_paths(dir: &Path, pid: u32) -> Vec<PathBuf> {
    let is_it = |name: &str| parse_name(name) == Some(pid) && name.contains(&format!("{pid}."));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_it))
        .map(|entry| entry.path())
        .collect()
}

/// Hexadecimal digits behind the process id in the name that nobody can guess.
pub(crate) const TAG_DIGITS: usize = 16;

/// The process id of a file name, which must be one that the writer forms.
pub(crate) fn parse_name(name: &str) -> Option<u32> {
    let numbers = name.strip_prefix(FILE_PREFIX)?;
    let (number, tag) = numbers.split_once('.').unwrap_or((numbers, ""));
    let is_tag = tag.len() == TAG_DIGITS && tag.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pid: u32 = number.parse().ok()?;
    let is_plain = number == numbers;
    (pid > 0 && number == pid.to_string() && (is_plain || is_tag)).then_some(pid)
}

impl Reader {
    /// Whether the process that made the segment still runs.
    pub fn is_live(&self) -> bool {
        let process = self.process();
        process_start_time_ticks(process.pid)
            .is_some_and(|start| process.start_time_ticks == 0 || process.start_time_ticks == start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_name_with_parentheses_and_spaces() {
        let line = b"42 (a) R (b c) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 11 12\n";
        assert_eq!(
            parse_stat(line),
            Some(Stat {
                state: b'S',
                start_time_ticks: 987_654
            })
        );
    }

    #[test]
    fn stat_every_truncation_is_refused_or_right() {
        let line = b"42 (x) S 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 11";
        let complete = line.len() - b"654 11".len();
        for end in 0..complete {
            let parsed = line.get(..end).and_then(parse_stat);
            assert!(
                parsed.is_none_or(|stat| stat.start_time_ticks < 987_654),
                "{end}: {parsed:?}"
            );
        }
    }

    #[test]
    fn start_time_of_this_process_is_known() {
        assert!(process_start_time_ticks(std::process::id()).is_some_and(|ticks| ticks > 0));
    }

    #[test]
    fn names_only_as_the_writer_forms_them() {
        assert_eq!(parse_name("vmastat.17"), Some(17));
        assert_eq!(parse_name("vmastat.17.0123456789abcdef"), Some(17));
        for other in [
            "vmastat.",
            "vmastat.017",
            "vmastat.17.",
            "vmastat.17.control",
            "vmastat.17.0123456789abcde",
            "vmastat.17.0123456789abcdex",
            "vmastat.17.0123456789abcdef.control",
            "vmastat.+17",
            "vmastat.0",
            "vmastat.17x",
            "x.17",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
