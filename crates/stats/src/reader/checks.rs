//! What a segment's file must be before it is believed.

use std::fs::{self};
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};

use super::{ProcessInfo, Section, Sections};
use crate::error::ReadError;
use crate::field::Field;
use crate::field::text::Text;
use crate::layout::{
    Header, LAYOUT_MAJOR, MAGIC, MAX_ENTRIES, MAX_ENTRY_BYTES, MAX_FILE_BYTES, MAX_SECTIONS,
    SectionRow,
};
use crate::mapping::{EntryView, ReadMapping};
use crate::process::process_users;
use crate::sections::SECTIONS;

/// The size of a regular file that is large enough for a header.
pub(super) fn mappable_bytes(file: &fs::File, path: &Path) -> Result<usize, ReadError> {
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

/// That the file is the process's, and not one that another user has put in its place. Root's is
/// that of a process that has become another user since.
pub(super) fn check_owner(file: &fs::File, pid: u32, path: &Path) -> Result<(), ReadError> {
    let owner = file_status(file, path)?.uid();
    let is_foreign = owner != 0 && process_users(pid).is_some_and(|users| !users.contains(&owner));
    if is_foreign {
        let path = path.to_owned();
        return Err(ReadError::Foreign { path, owner, pid });
    }
    Ok(())
}

pub(super) fn file_status(file: &fs::File, path: &Path) -> Result<fs::Metadata, ReadError> {
    file.metadata().map_err(|source| ReadError::System {
        operation: "stat",
        path: path.to_owned(),
        source,
    })
}

/// Checks everything that later reads rely on. Each word is loaded once, so a writer that changes
/// it afterwards changes nothing here.
pub(super) fn check_header(
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
pub(super) fn check_section(
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
pub(super) fn within(
    offset: u64,
    count: u32,
    bytes: u32,
    alignment: u64,
    total_bytes: u64,
) -> Option<usize> {
    // The product of two 32-bit numbers fits into 64 bits.
    let end = offset.checked_add(u64::from(count) * u64::from(bytes))?;
    if end > total_bytes || !offset.is_multiple_of(alignment) {
        return None;
    }
    usize::try_from(offset).ok()
}
