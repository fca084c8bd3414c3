//! Reads the segment of another process, which is not trusted.

mod checks;

use std::fs::{self, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use crate::error::ReadError;
use crate::layout::SectionRow;
use crate::mapping::{EntryView, ReadMapping};
use crate::names::{other_segment_paths, segment_path};
use crate::process::process_start_time_ticks;
use crate::schema::Entry;
use crate::sections::{SECTIONS, SectionKind, with_sections};
use checks::{check_header, check_owner, file_status, mappable_bytes};

/// What the header says about the process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessInfo {
    pub pid: u32,
    /// Since boot, clock ticks; 0 when the process could not find out.
    pub start_time_ticks: u64,
    pub program: String,
    pub library_version: String,
    pub layout_major: u32,
    pub layout_minor: u32,
}

/// An open segment. Needs read permission only and never writes.
///
/// Every size and offset is checked once, when the segment is opened, and the checked values are
/// used from then on. Before and after each snapshot the file's size is checked again, because
/// reading a mapped page that a file has lost raises SIGBUS. A file that is cut in the instant
/// between check and read can still raise it: a tool installs a handler that calls
/// [`survive_truncation`](crate::survive_truncation).
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: fs::File,
    mapping: ReadMapping,
    mapped_bytes: usize,
    process: ProcessInfo,
    sections: Sections,
}

/// A segment's file, held open: it can still be read when its process has ended and its name is
/// gone. Takes a descriptor and no memory.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    file: fs::File,
    pid: u32,
}

impl SegmentFile {
    /// Opens `<dir>/vmastat.<pid>`, which has to belong to the process's user or to root. If it
    /// does not, or is not there, it is the first `<dir>/vmastat.<pid>.<16 hexadecimal digits>`
    /// that does. Its contents are not looked at.
    ///
    /// # Errors
    /// It is not there, or no segment of that process's user.
    pub fn open(dir: &Path, pid: u32) -> Result<Self, ReadError> {
        Self::open_at(segment_path(dir, pid), pid).or_else(|error| {
            // Somebody else may have the name.
            let others = other_segment_paths(dir, pid).into_iter();
            let mut opened = others.filter_map(|path| Self::open_at(path, pid).ok());
            opened.next().ok_or(error)
        })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The same at the path of a file of `pid`.
    pub(crate) fn open_at(path: PathBuf, pid: u32) -> Result<Self, ReadError> {
        // Without O_NONBLOCK, a FIFO of this name would stop the reader for good.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ReadError::NotFound { pid, path });
            }
            Err(error) if error.raw_os_error() == Some(libc::ELOOP) => {
                return Err(ReadError::NotRegular { path });
            }
            Err(source) => {
                return Err(ReadError::System {
                    operation: "open",
                    path,
                    source,
                });
            }
        };
        check_owner(&file, pid, &path)?;
        Ok(Self { path, file, pid })
    }

    /// Who made it.
    ///
    /// # Errors
    /// The system does not say.
    pub fn owner(&self) -> Result<u32, ReadError> {
        file_status(&self.file, &self.path).map(|status| status.uid())
    }

    /// Whether the file at its path is still this one: a process that executes another program
    /// makes a new one.
    pub fn is_current(&self) -> bool {
        let id = |status: fs::Metadata| (status.dev(), status.ino());
        let here = self.file.metadata().ok().map(id);
        here.is_some() && here == fs::symlink_metadata(&self.path).ok().map(id)
    }

    /// Checks all of its structure.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(self) -> Result<Reader, ReadError> {
        let Self { path, file, pid } = self;
        let bytes = mappable_bytes(&file, &path)?;
        let mapping = ReadMapping::new(&file, bytes).map_err(|source| ReadError::System {
            operation: "map",
            path: path.clone(),
            source,
        })?;
        let (process, sections) = check_header(&mapping, bytes, pid, &path)?;
        Ok(Reader {
            path,
            file,
            mapping,
            mapped_bytes: bytes,
            process,
            sections,
        })
    }
}

/// In the order of [`SECTIONS`].
type Sections = [Section; SECTIONS.len()];

/// A section whose entries all lie in the mapping. A section that the file does not have is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Section {
    offset: usize,
    entry_bytes: usize,
    entries: u32,
    /// Where the row of the section table is, to read the overflow count again.
    row: Option<usize>,
}

impl Reader {
    /// Opens `<dir>/vmastat.<pid>` and checks all of its structure. Does not ask whether the
    /// process still runs: see [`is_live`](Self::is_live).
    pub fn open(dir: &Path, pid: u32) -> Result<Self, ReadError> {
        SegmentFile::open(dir, pid)?.read()
    }

    pub fn process(&self) -> &ProcessInfo {
        &self.process
    }

    /// Whether the process that made the segment still runs.
    pub fn is_live(&self) -> bool {
        let process = self.process();
        process_start_time_ticks(process.pid)
            .is_some_and(|start| process.start_time_ticks == 0 || process.start_time_ticks == start)
    }

    pub(crate) fn mapping(&self) -> &ReadMapping {
        &self.mapping
    }

    pub(crate) fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }

    /// How many claims found the section full: what they count is not in the segment.
    pub fn overflowed(&self, kind: SectionKind) -> Result<u64, ReadError> {
        self.check_size()?;
        let row = self.section(kind).row;
        let offset = row.map(|row| row + offset_of!(SectionRow, overflowed));
        Ok(offset
            .and_then(|offset| self.mapping.load_u64(offset))
            .unwrap_or(0))
    }

    /// How many entries the section has room for.
    pub fn capacity(&self, kind: SectionKind) -> u32 {
        self.section(kind).entries
    }

    /// The entries that have memory. To look at others would give it to them.
    fn allocated(&self, section: Section) -> u32 {
        let offset = section
            .row
            .map(|row| row + offset_of!(SectionRow, allocated));
        let told = offset.and_then(|offset| self.mapping.load_u32(offset));
        match told.unwrap_or(0) {
            0 => section.entries,
            allocated => allocated.min(section.entries),
        }
    }

    fn section(&self, kind: SectionKind) -> Section {
        let mut places = SECTIONS.iter().zip(self.sections);
        places
            .find(|(info, _)| info.kind == kind)
            .map_or_else(Section::default, |(_, section)| section)
    }

    /// Entries that are in use. Each snapshot is of one user: an entry that changes hands while it
    /// is read is read again.
    fn claimed<E: Entry>(&self, kind: SectionKind) -> Result<Vec<E::Snapshot>, ReadError> {
        let section = self.section(kind);
        self.check_size()?;
        let indices = 0..self.allocated(section);
        let snapshots = indices
            .filter_map(|index| read_entry::<E>(&self.entry(section, index), index))
            .collect();
        self.check_size().map(|()| snapshots)
    }

    /// Entries that are written once and never claimed.
    fn described<E: Entry>(&self, kind: SectionKind) -> Result<Vec<E::Snapshot>, ReadError> {
        let section = self.section(kind);
        self.check_size()?;
        let read = |index| E::read(&self.entry(section, index), index, 0);
        let described = (0..section.entries).map(read).collect();
        self.check_size().map(|()| described)
    }

    fn entry(&self, section: Section, index: u32) -> EntryView<'_> {
        EntryView {
            mapping: &self.mapping,
            offset: section.offset + index as usize * section.entry_bytes,
            bytes: section.entry_bytes,
        }
    }

    /// That the file still has every byte that is mapped.
    fn check_size(&self) -> Result<(), ReadError> {
        let actual = file_status(&self.file, &self.path)?.len();
        let expected = self.mapped_bytes as u64;
        if actual < expected {
            return Err(ReadError::Truncated {
                path: self.path.clone(),
                actual,
                expected,
            });
        }
        Ok(())
    }
}

macro_rules! read_sections {
    ($( $kind:ident = $number:literal, $name:ident: $stats:ident => $snapshot:ident,
        $mode:ident $( by $claim:ident -> $slot:ident )?,
        $entries:expr, $told:expr, $order:expr, $help:literal; )*) => {
        impl Reader {
            $(
                #[doc = $help]
                ///
                /// # Errors
                /// The file has become shorter.
                pub fn $name(&self) -> Result<Vec<crate::schema::$snapshot>, ReadError> {
                    let mut entries = self.$mode::<crate::schema::$stats>(SectionKind::$kind)?;
                    let (told, order): (fn(&crate::schema::$snapshot) -> bool, fn(&crate::schema::$snapshot) -> u64) =
                        ($told, $order);
                    entries.retain(told);
                    entries.sort_by_key(order);
                    Ok(entries)
                }
            )*
        }
    };
}

with_sections!(read_sections);

/// Reads an entry until its generation is the same odd number before and after. `None` when the
/// entry is free, or changes hands faster than it can be read.
fn read_entry<E: Entry>(entry: &EntryView<'_>, index: u32) -> Option<E::Snapshot> {
    for _ in 0..READ_ATTEMPTS {
        let generation = entry.load_u64(0);
        if generation.is_multiple_of(2) {
            return None;
        }
        fence(Ordering::Acquire);
        let snapshot = E::read(entry, index, generation);
        fence(Ordering::Acquire);
        if entry.load_u64(0) == generation {
            return Some(snapshot);
        }
        std::hint::spin_loop();
    }
    None
}

/// A read takes less than a microsecond, a socket lives longer.
const READ_ATTEMPTS: usize = 100;
