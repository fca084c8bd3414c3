//! A segment that the previous version of the layout has written, byte for byte from its
//! description, and what a reader of this version makes of it.

use std::fs;

use stats::{ReadError, Reader, Statistics, Value};

const HEADER_BYTES: usize = 192;
const ROW_BYTES: usize = 32;

/// Number, name, name of the entry in the description, and size of an entry, of each section of
/// layout 1.3.
const SECTIONS: [(u32, &str, &str, usize); 9] = [
    (1, "sockets", "socket", 24 * 64),
    (2, "rings", "ring", 3 * 64),
    (3, "pools", "pool", 64),
    (4, "reasons", "reason", 2 * 64),
    (5, "settings", "setting", 4 * 64),
    (6, "rules", "rule", 5 * 64),
    (7, "closed_sockets", "socket", 24 * 64),
    (8, "kernel_sockets", "kernel_socket", 64),
    (9, "notes", "note", 5 * 64),
];

/// Offsets of an entry's fields.
fn fields(entry: &str) -> Vec<(&'static str, usize)> {
    let lines = include_str!("../src/schema/format-1.3.txt").lines();
    let fields = lines.filter_map(|line| {
        let (field, offset) = line.split_once(' ')?;
        let (name, field) = field.split_once('.')?;
        (name == entry).then(|| (field, offset.parse().unwrap()))
    });
    fields.collect()
}

/// The type of a field, which no version changes.
fn type_name(section: &str, field: &str) -> &'static str {
    let section = stats::SECTIONS.iter().find(|it| it.name == section);
    let field = section.and_then(|it| it.fields.iter().find(|it| it.name == field));
    field.unwrap().type_name
}

fn word(value: u64) -> u32 {
    u32::try_from(value).unwrap()
}

/// One entry in each section; every field that is a number or a plain text has a value of its own.
fn segment(major: u32, minor: u32) -> Vec<u8> {
    let mut bytes = vec![0_u8; HEADER_BYTES + SECTIONS.len() * ROW_BYTES];
    fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
        bytes[offset..offset + value.len()].copy_from_slice(value);
    }
    for (index, (kind, name, entry, entry_bytes)) in SECTIONS.into_iter().enumerate() {
        let start = bytes.len().next_multiple_of(64);
        bytes.resize(start + entry_bytes, 0);
        let row = HEADER_BYTES + index * ROW_BYTES;
        put(&mut bytes, row, &kind.to_ne_bytes());
        put(&mut bytes, row + 4, &word(entry_bytes as u64).to_ne_bytes());
        put(&mut bytes, row + 8, &1_u32.to_ne_bytes());
        put(&mut bytes, row + 16, &(start as u64).to_ne_bytes());
        put(&mut bytes, start, &1_u64.to_ne_bytes());
        for (field, offset) in fields(entry) {
            let number = offset as u64 + 1000;
            let at = start + offset;
            match type_name(name, field) {
                "Counter" | "Gauge" | "Peak" | "LargeNumber" => {
                    put(&mut bytes, at, &number.to_ne_bytes());
                }
                "Number" | "Descriptor" | "Flag" => {
                    put(&mut bytes, at, &word(number).to_ne_bytes());
                }
                text if text.starts_with("Text") => {
                    put(&mut bytes, at, format!("t{number}").as_bytes());
                }
                _ => {}
            }
        }
    }
    let total = bytes.len() as u64;
    put(&mut bytes, 0, b"vmastat\x01");
    put(&mut bytes, 8, &major.to_ne_bytes());
    put(&mut bytes, 12, &minor.to_ne_bytes());
    put(&mut bytes, 16, &total.to_ne_bytes());
    put(&mut bytes, 24, &std::process::id().to_ne_bytes());
    put(&mut bytes, 28, &word(SECTIONS.len() as u64).to_ne_bytes());
    put(&mut bytes, 40, &word(HEADER_BYTES as u64).to_ne_bytes());
    put(&mut bytes, 44, &word(ROW_BYTES as u64).to_ne_bytes());
    put(&mut bytes, 112, b"older");
    bytes
}

fn open(bytes: &[u8]) -> Result<Reader, ReadError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("vmastat.{}", std::process::id()));
    fs::write(path, bytes).unwrap();
    Reader::open(dir.path(), std::process::id())
}

#[test]
fn every_field_of_the_previous_layout_is_read_and_newer_ones_are_empty() {
    let reader = open(&segment(1, 3)).unwrap();
    assert_eq!(
        (
            reader.process().program.as_str(),
            reader.process().layout_minor
        ),
        ("older", 3)
    );
    let statistics = Statistics::read(&reader).unwrap();
    let (mut read, mut newer) = (0, 0);
    for (section, rows) in statistics.rows() {
        let known = SECTIONS.iter().find(|(_, name, ..)| *name == section.name);
        let Some((_, _, entry, _)) = known else {
            assert!(rows.is_empty(), "{}", section.name);
            continue;
        };
        assert_eq!(rows.len(), 1, "{}", section.name);
        let offsets = fields(entry);
        for (field, value) in section.fields.iter().zip(&rows[0]) {
            let old = offsets.iter().find(|(name, _)| *name == field.name);
            match (old, value) {
                (None, value) => {
                    newer += 1;
                    assert!(value.is_empty(), "{}.{}: {value}", section.name, field.name);
                }
                (Some((_, offset)), Value::Unsigned(value)) => {
                    read += 1;
                    assert_eq!(*value, *offset as u64 + 1000, "{}", field.name);
                }
                (Some((_, offset)), Value::Text(text)) if field.type_name.starts_with("Text") => {
                    read += 1;
                    assert_eq!(*text, format!("t{}", offset + 1000), "{}", field.name);
                }
                _ => {}
            }
        }
    }
    assert!(
        read > 60 && newer > 20,
        "{read} fields were read, {newer} are newer"
    );
}

#[test]
fn another_major_version_is_refused_with_both_named() {
    let error = open(&segment(2, 7)).unwrap_err().to_string();
    assert!(
        error.contains("layout 2.7") && error.contains("reads 1.x"),
        "{error}"
    );
}
