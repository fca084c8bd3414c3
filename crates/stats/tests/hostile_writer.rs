//! Files that a correct writer would not make: the reader answers with an error or with numbers,
//! and never fails otherwise.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use stats::{
    Capacity, Identity, LAYOUT_MINOR, ReadError, Reader, SECTIONS, SectionKind, Segment, Setting,
    Statistics,
};

// Where the header and the first row of the section table keep what the tests change.
const MAJOR: usize = 8;
const MINOR: usize = 12;
const TOTAL_BYTES: usize = 16;
const PID: usize = 24;
const TABLE_ROWS: usize = 28;
const TABLE_OFFSET: usize = 40;
const TABLE_ROW_BYTES: usize = 44;
const PROGRAM: usize = 112;
const ROW: usize = 192;
const ROW_BYTES: usize = 32;
const ROW_KIND: usize = ROW;
const ROW_ENTRY_BYTES: usize = ROW + 4;
const ROW_ENTRIES: usize = ROW + 8;
const ROW_ALLOCATED: usize = ROW_ENTRIES + 4;
const ROW_OFFSET: usize = ROW + 16;

fn pid() -> u32 {
    std::process::id()
}

struct Fixture {
    dir: tempfile::TempDir,
    /// Of a valid segment with one socket, one ring, one pool, two reasons, one setting, one rule,
    /// one closed socket, one of the kernel's, one note, one multiplexer, one queue, one group and
    /// one event in use.
    bytes: Vec<u8>,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let identity = Identity {
            library_version: "1".to_owned(),
            program: "p".to_owned(),
        };
        let capacity = Capacity {
            sockets: 2,
            connections: 2,
            rings: 1,
            pools: 1,
            reasons: 2,
            settings: 1,
            rules: 1,
        };
        let segment = Segment::create(dir.path(), &identity, capacity).unwrap();
        let socket = segment.claim_socket();
        socket.fd.set(9);
        socket.local.set("10.0.0.1:1".parse().unwrap());
        socket.rx_packets.add(5);
        let _ring = segment.claim_ring();
        let _pool = segment.claim_pool();
        segment.reason_names(&["zero", "one"]);
        let setting = Setting {
            name: "VMA_SPEC",
            value: "latency",
            origin: "environment",
        };
        segment.settings([setting].into_iter());
        segment.describe_rule(1, "use os udp_sender *:1", "/etc/libvma.conf:1");
        segment.remember_closed(&socket);
        let of_kernel = segment.claim_kernel_socket();
        of_kernel.fd.set(3);
        segment.note("vb", "vlan", "tags are stripped");
        let multiplexer = segment.claim_multiplexer();
        multiplexer.kind.set("epoll");
        let _queue = segment.claim_queue();
        let group = segment.claim_group();
        group.group.set("224.7.7.7:0".parse().unwrap());
        segment.event("offload", "fd 9", "runs in user space");
        let mut bytes = fs::read(path(dir.path())).unwrap();
        // Behind the sections there is room for packets, which these readers do not look at.
        let sections = u64::from_ne_bytes(bytes[16..24].try_into().unwrap());
        bytes.truncate(usize::try_from(sections).unwrap());
        drop(segment);
        Self { dir, bytes }
    }

    /// A file with `bytes`, opened and read in full.
    fn read(&self, bytes: &[u8]) -> Result<usize, ReadError> {
        fs::write(path(self.dir.path()), bytes).unwrap();
        let reader = Reader::open(self.dir.path(), pid())?;
        read_all(&reader)
    }

    /// The 32-bit word at an offset of the valid segment.
    fn word(&self, offset: usize) -> u32 {
        u32::from_ne_bytes(self.bytes[offset..offset + 4].try_into().unwrap())
    }

    fn with(&self, offset: usize, value: &[u8]) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[offset..offset + value.len()].copy_from_slice(value);
        bytes
    }

    fn damage(&self, offset: usize, value: &[u8]) -> String {
        match self.read(&self.with(offset, value)) {
            Ok(_) => panic!("{value:?} at {offset} was accepted"),
            Err(error) => error.to_string(),
        }
    }
}

fn path(dir: &Path) -> PathBuf {
    dir.join(format!("vmastat.{}", pid()))
}

fn read_all(reader: &Reader) -> Result<usize, ReadError> {
    for section in SECTIONS {
        reader.overflowed(section.kind)?;
    }
    let _ = reader.is_live();
    let rows = Statistics::read(reader)?.rows();
    Ok(rows.iter().map(|(_, rows)| rows.len()).sum())
}

#[test]
fn every_truncation_is_an_error() {
    let fixture = Fixture::new();
    assert_eq!(fixture.read(&fixture.bytes).unwrap(), 14);
    // Every length up to the first sections, and a few of each of the longer entries.
    for end in (0..4096).chain((4096..fixture.bytes.len()).step_by(9001)) {
        let error = fixture.read(&fixture.bytes[..end]).unwrap_err();
        assert!(
            matches!(error, ReadError::Truncated { .. }),
            "{end} bytes: {error}"
        );
    }
}

#[test]
fn file_cut_after_it_was_opened_is_an_error() {
    let fixture = Fixture::new();
    fs::write(path(fixture.dir.path()), &fixture.bytes).unwrap();
    let reader = Reader::open(fixture.dir.path(), pid()).unwrap();
    assert_eq!(read_all(&reader).unwrap(), 14);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(path(fixture.dir.path()))
        .unwrap();
    file.set_len(0).unwrap();
    for result in [
        reader.sockets().map(drop),
        reader.rings().map(drop),
        reader.pools().map(drop),
        reader.reasons().map(drop),
        reader.settings().map(drop),
        reader.rules().map(drop),
        reader.closed_sockets().map(drop),
        reader.kernel_sockets().map(drop),
        reader.notes().map(drop),
        reader.overflowed(SectionKind::Sockets).map(drop),
    ] {
        assert!(
            matches!(result, Err(ReadError::Truncated { actual: 0, .. })),
            "{result:?}"
        );
    }
}

#[test]
fn header_that_lies_is_an_error() {
    let fixture = Fixture::new();
    let message = fixture.damage(0, b"VMASTAT\x01");
    assert!(message.contains("not a statistics file"), "{message}");
    let message = fixture.damage(MAJOR, &2_u32.to_ne_bytes());
    assert!(
        message.contains(&format!("layout 2.{LAYOUT_MINOR}, this program reads 1.x")),
        "{message}"
    );
    let message = fixture.damage(PID, &1_u32.to_ne_bytes());
    assert!(message.contains("process id"), "{message}");
    let message = fixture.damage(TOTAL_BYTES, &u64::MAX.to_ne_bytes());
    assert!(message.contains("truncated"), "{message}");
    fixture.damage(TOTAL_BYTES, &200_u64.to_ne_bytes());
    for rows in [65, u32::MAX] {
        fixture.damage(TABLE_ROWS, &rows.to_ne_bytes());
    }
    for offset in [193, 0xffff_fff8, u32::MAX] {
        fixture.damage(TABLE_OFFSET, &u32::to_ne_bytes(offset));
    }
    for row_bytes in [0, 31, 4097, u32::MAX] {
        fixture.damage(TABLE_ROW_BYTES, &u32::to_ne_bytes(row_bytes));
    }
}

#[test]
fn section_that_lies_is_an_error() {
    let fixture = Fixture::new();
    for entry_bytes in [0, 63, 65, 8192, u32::MAX] {
        fixture.damage(ROW_ENTRY_BYTES, &u32::to_ne_bytes(entry_bytes));
    }
    for entries in [60_000, 65_536, 65_537, u32::MAX] {
        fixture.damage(ROW_ENTRIES, &u32::to_ne_bytes(entries));
    }
    for offset in [1, 8, 1 << 20, u64::MAX - 63, u64::MAX] {
        fixture.damage(ROW_OFFSET, &u64::to_ne_bytes(offset));
    }
    let message = fixture.damage(ROW_KIND, &(SectionKind::Rings as u32).to_ne_bytes());
    assert!(message.contains("two sections of one kind"), "{message}");
}

#[test]
fn unknown_section_and_minor_version_are_accepted() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture
            .read(&fixture.with(MINOR, &77_u32.to_ne_bytes()))
            .unwrap(),
        14
    );
    // The socket section becomes one of a kind that is not known, and absurd on top.
    let mut bytes = fixture.with(ROW_KIND, &1000_u32.to_ne_bytes());
    bytes[ROW_ENTRIES..ROW_ENTRIES + 4].fill(0xff);
    bytes[ROW_OFFSET..ROW_OFFSET + 8].fill(0xff);
    assert_eq!(fixture.read(&bytes).unwrap(), 13);
}

/// A newer writer with one more cache line per socket, and an older one without the send counters.
#[test]
fn entries_of_another_minor_version_are_read_by_their_own_size() {
    let fixture = Fixture::new();
    let entry_bytes = usize::try_from(fixture.word(ROW_ENTRY_BYTES)).unwrap();
    let first = usize::try_from(fixture.word(ROW_OFFSET)).unwrap();
    let socket = &fixture.bytes[first..first + entry_bytes];
    // Before version 1.6, which entries have memory was not said.
    for (other_bytes, allocated) in [(entry_bytes + 64, 3), (entry_bytes - 20 * 64, 0)] {
        let mut bytes = fixture.bytes.clone();
        let mut entry = socket.to_vec();
        entry.resize(other_bytes, 0xee);
        let start = bytes.len();
        bytes.extend(entry.repeat(3));
        let total = bytes.len() as u64;
        for (offset, value) in [
            (ROW_ENTRY_BYTES, u32::try_from(other_bytes).unwrap()),
            (ROW_ENTRIES, 3),
            (ROW_ALLOCATED, allocated),
        ] {
            bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        }
        for (offset, value) in [(ROW_OFFSET, start as u64), (TOTAL_BYTES, total)] {
            bytes[offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
        }
        fs::write(path(fixture.dir.path()), &bytes).unwrap();
        let sockets = Reader::open(fixture.dir.path(), pid())
            .unwrap()
            .sockets()
            .unwrap();
        assert_eq!(sockets.len(), 3);
        for socket in sockets {
            assert_eq!((socket.fd, socket.rx_packets, socket.tx_packets), (9, 5, 0));
        }
    }
}

#[test]
fn program_name_reaches_no_terminal_as_control() {
    let fixture = Fixture::new();
    fs::write(
        path(fixture.dir.path()),
        fixture.with(PROGRAM, b"\x1b]0;x\x07\xff"),
    )
    .unwrap();
    let reader = Reader::open(fixture.dir.path(), pid()).unwrap();
    let program = &reader.process().program;
    assert!(!program.chars().any(char::is_control), "{program:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    /// Anything may be anywhere, most often where the structure is.
    #[test]
    fn damage_never_fails_the_reader(
        changes in prop::collection::vec((position(), prop_oneof![any::<u8>(), Just(0), Just(0xff)]), 1..40),
        end in prop::option::of(0_usize..3000),
    ) {
        let fixture = Fixture::new();
        let mut bytes = fixture.bytes.clone();
        for (offset, value) in changes {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte = value;
            }
        }
        bytes.resize(end.unwrap_or(bytes.len()), 0);
        let _ = fixture.read(&bytes);
    }

    #[test]
    fn changed_words_never_fail_the_reader(
        changes in prop::collection::vec((8_usize..(ROW + SECTIONS.len() * ROW_BYTES) / 4, word()), 1..6),
    ) {
        let fixture = Fixture::new();
        let mut bytes = fixture.bytes.clone();
        for (index, value) in changes {
            // The magic number, the version and the process id stay, or nothing else is looked at.
            if index * 4 != PID {
                bytes[index * 4..index * 4 + 4].copy_from_slice(&value.to_ne_bytes());
            }
        }
        let _ = fixture.read(&bytes);
    }
}

fn position() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 12..ROW + SECTIONS.len() * ROW_BYTES, 1 => 0_usize..3000]
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0_u32..5000,
        (0_u32..100).prop_map(|n| n * 64),
        Just(u32::MAX)
    ]
}
