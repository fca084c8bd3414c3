//! Reads the segment of another process, which is not trusted.

use std::fs::{self, OpenOptions};
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use crate::error::ReadError;
use crate::field::{Field, Text};
use crate::layout::{
    Header, LAYOUT_MAJOR, MAGIC, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_FILE_BYTES, MAX_SECTIONS,
    SectionRow,
};
use crate::mapping::{EntryView, ReadMapping};
use crate::process::{other_segment_paths, process_users, segment_path};
use crate::schema::Entry;
use crate::sections::{SECTIONS, SectionKind, with_sections};

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
/// Every size and offset is checked once, when the segment is opened, and the checked values are used
/// from then on. Before and after each snapshot the file's size is checked again, because reading a
/// mapped page that a file has lost raises SIGBUS. A file that is cut in the instant between check and
/// read can still raise it: a tool installs a handler that calls
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

/// A segment's file, held open: it can still be read when its process has ended and its name is gone. Takes a descriptor and no
/// memory.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    file: fs::File,
    pid: u32,
}

impl SegmentFile {
    /// Opens `<dir>/vmastat.<pid>`, which has to belong to the process's user or to root. If it does not, or is not there, it is
    /// the first `<dir>/vmastat.<pid>.<16 hexadecimal digits>` that does. Its contents are not looked at.
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

    /// Whether the file at its path is still this one: a process that executes another program makes a new one.
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
    /// Opens `<dir>/vmastat.<pid>` and checks all of its structure. Does not ask whether the process
    /// still runs: see [`is_live`](Self::is_live).
    pub fn open(dir: &Path, pid: u32) -> Result<Self, ReadError> {
        SegmentFile::open(dir, pid)?.read()
    }

    pub fn process(&self) -> &ProcessInfo {
        &self.process
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

    /// Entries that are in use. Each snapshot is of one user: an entry that changes hands while it is read is read again.
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

/// Reads an entry until its generation is the same odd number before and after. `None` when the entry
/// is free, or changes hands faster than it can be read.
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

/// The size of a regular file that is large enough for a header.
fn mappable_bytes(file: &fs::File, path: &Path) -> Result<usize, ReadError> {
    let status = file_status(file, path)?;
    let path = path.to_owned();
    if !status.is_file() {
        return Err(ReadError::NotRegular { path });
    }
    let (actual, expected) = (status.len(), size_of::<Header>() as u64);
    if actual < expected {
        return Err(ReadError::Truncated {
            path,
            actual,
            expected,
        });
    }
    match usize::try_from(actual) {
        Ok(bytes) if actual <= MAX_FILE_BYTES => Ok(bytes),
        _ => Err(ReadError::Damaged {
            path,
            what: "it is larger than a segment can be",
        }),
    }
}

/// That the file is the process's, and not one that another user has put in its place. Root's is that of a process that has
/// become another user since.
fn check_owner(file: &fs::File, pid: u32, path: &Path) -> Result<(), ReadError> {
    let owner = file_status(file, path)?.uid();
    let is_foreign = owner != 0 && process_users(pid).is_some_and(|users| !users.contains(&owner));
    if is_foreign {
        let path = path.to_owned();
        return Err(ReadError::Foreign { path, owner, pid });
    }
    Ok(())
}

fn file_status(file: &fs::File, path: &Path) -> Result<fs::Metadata, ReadError> {
    file.metadata().map_err(|source| ReadError::System {
        operation: "stat",
        path: path.to_owned(),
        source,
    })
}

/// Checks everything that later reads rely on. Each word is loaded once, so a writer that changes it
/// afterwards changes nothing here.
fn check_header(
    mapping: &ReadMapping,
    file_bytes: usize,
    pid: u32,
    path: &Path,
) -> Result<(ProcessInfo, Sections), ReadError> {
    let damaged = |what| ReadError::Damaged {
        path: path.to_owned(),
        what,
    };
    let header = EntryView {
        mapping,
        offset: 0,
        bytes: size_of::<Header>(),
    };
    if header.load_u64(offset_of!(Header, magic)) != MAGIC {
        return Err(ReadError::NotStatistics {
            path: path.to_owned(),
        });
    }
    // Pairs with the release of the magic number, which the writer stores last.
    fence(Ordering::Acquire);
    let number = |offset| header.load_u32(offset);
    let process = ProcessInfo {
        pid: number(offset_of!(Header, pid)),
        start_time_ticks: header.load_u64(offset_of!(Header, start_time_ticks)),
        program: Text::<8>::read(&header, offset_of!(Header, program)),
        library_version: Text::<8>::read(&header, offset_of!(Header, library_version)),
        layout_major: number(offset_of!(Header, major)),
        layout_minor: number(offset_of!(Header, minor)),
    };
    if process.layout_major != LAYOUT_MAJOR {
        let (major, minor) = (process.layout_major, process.layout_minor);
        return Err(ReadError::Version {
            path: path.to_owned(),
            major,
            minor,
        });
    }
    if process.pid != pid {
        return Err(damaged("its process id is not the one in its name"));
    }
    let total_bytes = header.load_u64(offset_of!(Header, total_bytes));
    if total_bytes > file_bytes as u64 {
        let (actual, expected) = (file_bytes as u64, total_bytes);
        return Err(ReadError::Truncated {
            path: path.to_owned(),
            actual,
            expected,
        });
    }
    let rows = number(offset_of!(Header, table_rows));
    let row_bytes = number(offset_of!(Header, table_row_bytes));
    if rows > MAX_SECTIONS || row_bytes > MAX_ENTRY_BYTES {
        return Err(damaged("its section table is too large"));
    }
    if (row_bytes as usize) < size_of::<SectionRow>() {
        return Err(damaged("the rows of its section table are too short"));
    }
    let table_offset = u64::from(number(offset_of!(Header, table_offset)));
    let Some(table) = within(table_offset, rows, row_bytes, 8, total_bytes) else {
        return Err(damaged("its section table is outside of it"));
    };
    let mut sections = [Section::default(); SECTIONS.len()];
    for index in 0..rows {
        let offset = table + index as usize * row_bytes as usize;
        let row = EntryView {
            mapping,
            offset,
            bytes: row_bytes as usize,
        };
        check_section(&mut sections, &row, total_bytes).map_err(damaged)?;
    }
    Ok((process, sections))
}

/// Fills in the section that the row describes, if its kind is known here.
fn check_section(
    sections: &mut Sections,
    row: &EntryView<'_>,
    total_bytes: u64,
) -> Result<(), &'static str> {
    let kind = row.load_u32(offset_of!(SectionRow, kind));
    let mut places = SECTIONS.iter().zip(sections);
    let Some((_, place)) = places.find(|(info, _)| info.kind as u32 == kind) else {
        return Ok(());
    };
    let entries = row.load_u32(offset_of!(SectionRow, entries));
    let entry_bytes = row.load_u32(offset_of!(SectionRow, entry_bytes));
    let offset = row.load_u64(offset_of!(SectionRow, offset));
    if place.row.is_some() {
        return Err("it has two sections of one kind");
    }
    if entries > MAX_ENTRIES {
        return Err("a section has too many entries");
    }
    if entry_bytes == 0 || entry_bytes > MAX_ENTRY_BYTES || !entry_bytes.is_multiple_of(64) {
        return Err("a section has entries of an impossible size");
    }
    let Some(offset) = within(offset, entries, entry_bytes, 64, total_bytes) else {
        return Err("a section is outside of it");
    };
    *place = Section {
        offset,
        entry_bytes: entry_bytes as usize,
        entries,
        row: Some(row.offset),
    };
    Ok(())
}

/// The offset, if it is aligned and `count` items of `bytes` each fit behind it.
fn within(offset: u64, count: u32, bytes: u32, alignment: u64, total_bytes: u64) -> Option<usize> {
    // The product of two 32-bit numbers fits into 64 bits.
    let end = offset.checked_add(u64::from(count) * u64::from(bytes))?;
    if end > total_bytes || !offset.is_multiple_of(alignment) {
        return None;
    }
    usize::try_from(offset).ok()
}
