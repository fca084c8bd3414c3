//! A statistics segment that a hostile process has made: the reader answers with an error or with
//! numbers.
#![no_main]

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use stats::{Reader, SECTIONS, Statistics};

/// Where the header keeps the process id.
const PID: std::ops::Range<usize> = 24..28;

fn directory() -> &'static PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let directory = std::env::temp_dir().join(format!("fuzz-segment.{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the segment");
        stats::survive_truncations().expect("a handler of SIGBUS");
        directory
    })
}

fuzz_target!(|data: &[u8]| {
    let pid = std::process::id();
    let mut bytes = data.to_vec();
    // Else nothing behind it is looked at.
    if let Some(place) = bytes.get_mut(PID) {
        place.copy_from_slice(&pid.to_ne_bytes());
    }
    let path = directory().join(format!("vmastat.{pid}"));
    fs::write(&path, &bytes).expect("a segment");
    let Ok(reader) = Reader::open(directory(), pid) else {
        return;
    };
    let earlier = Statistics::read(&reader).unwrap_or_default();
    for (section, rows) in earlier.rows() {
        for value in rows.iter().flatten() {
            assert!(!value.to_string().contains(char::is_control));
        }
        assert!(rows.len() <= reader.capacity(section.kind) as usize);
    }
    // It changes under the reader, then shrinks.
    for place in bytes.iter_mut().skip(192).step_by(7) {
        *place = place.wrapping_add(1);
    }
    fs::write(&path, &bytes).expect("a segment");
    if let Ok(later) = Statistics::read(&reader) {
        let _ = later.since(&earlier);
    }
    fs::write(&path, bytes.get(..bytes.len() / 2).unwrap_or_default()).expect("a segment");
    let _ = Statistics::read(&reader);
    for section in SECTIONS {
        let _ = reader.overflowed(section.kind);
    }
});
