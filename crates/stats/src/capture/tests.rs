#![allow(
    clippy::cast_possible_truncation,
    reason = "what is cut says which it is"
)]

use std::path::Path;

use super::*;
use crate::{Capacity, Identity, Reader, Segment};

fn segment(dir: &Path) -> Segment {
    let identity = Identity {
        library_version: "test".to_owned(),
        program: "capture".to_owned(),
    };
    let capacity = Capacity {
        sockets: 1,
        connections: 1,
        rings: 1,
        pools: 1,
        reasons: 1,
        settings: 1,
        rules: 1,
    };
    Segment::create(dir, &identity, capacity).unwrap()
}

fn reader(dir: &Path, ring: &CaptureRing) -> CaptureReader {
    let reader = Reader::open(dir, std::process::id()).unwrap();
    CaptureReader::new(reader, ring.offset()).unwrap()
}

/// A packet whose octets say which it is.
fn packet(number: usize) -> Vec<u8> {
    let len = 1 + number * 37 % 3000;
    (0..len).map(|at| (number + at) as u8).collect()
}

fn record(ring: &CaptureRing, number: usize) {
    let bytes = packet(number);
    let (first, second) = bytes.split_at(bytes.len() / 3);
    let direction = match number % 2 {
        0 => Direction::Received,
        _ => Direction::Sent,
    };
    ring.record(
        direction,
        number as u32,
        bytes.len(),
        [first, second].into_iter(),
    );
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn what_is_recorded_is_read_whole_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let segment = segment(dir.path());
    let ring = segment.capture().unwrap();
    assert!(!ring.is_wanted());
    ring.begin(SNAP_MAX, 0).unwrap();
    let mut reader = reader(dir.path(), ring);
    assert_eq!(reader.take(), None);
    // More than the ring holds at a time.
    let mut bytes = 0;
    for number in 0..3 * DATA_BYTES / 1500 {
        record(ring, number);
        let taken = reader.take().unwrap();
        assert_eq!(taken.bytes, packet(number), "{number}");
        assert_eq!(taken.link_index as usize, number);
        assert_eq!(taken.direction == Direction::Sent, number % 2 == 1);
        assert_eq!(taken.len as usize, taken.bytes.len());
        bytes += taken.bytes.len();
    }
    assert!(bytes > 2 * DATA_BYTES, "{bytes}");
    assert_eq!((reader.take(), reader.lost()), (None, 0));
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn a_reader_that_is_too_slow_counts_what_it_misses() {
    let dir = tempfile::tempdir().unwrap();
    let segment = segment(dir.path());
    let ring = segment.capture().unwrap();
    ring.begin(SNAP_MAX, 0).unwrap();
    let mut reader = reader(dir.path(), ring);
    record(ring, 0);
    assert!(reader.take().is_some());
    let count = 4 * DATA_BYTES / 1500;
    (1..=count).for_each(|number| record(ring, number));
    let mut seen = Vec::new();
    while let Some(taken) = reader.take() {
        assert_eq!(taken.bytes, packet(taken.link_index as usize));
        seen.push(taken.link_index as usize);
    }
    assert!(seen.len() > 1000, "{}", seen.len());
    assert!(seen.is_sorted());
    assert_eq!(seen.last(), Some(&count));
    assert_eq!(reader.lost() as usize, count - seen.len());
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn readers_see_no_half_of_a_packet_while_threads_write() {
    let dir = tempfile::tempdir().unwrap();
    let segment = segment(dir.path());
    let ring = segment.capture().unwrap();
    ring.begin(SNAP_MAX, 0).unwrap();
    let mut reader = reader(dir.path(), ring);
    let each = 40_000;
    let mut seen = 0;
    std::thread::scope(|scope| {
        let write = |first: usize| (first..first + each).for_each(|number| record(ring, number));
        let writers = [
            scope.spawn(move || write(0)),
            scope.spawn(move || write(each)),
        ];
        let mut more = true;
        while more {
            more = writers.iter().any(|writer| !writer.is_finished());
            while let Some(taken) = reader.take() {
                assert_eq!(taken.bytes, packet(taken.link_index as usize));
                seen += 1;
            }
        }
    });
    let (all, told) = (2 * each as u64, seen + reader.lost());
    // The last ones' numbers are not in the order of their places, perhaps.
    assert!(told.abs_diff(all) <= 2, "{told} of {all}");
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn it_ends_when_nobody_asks_and_takes_no_memory_then() {
    use std::os::unix::fs::MetadataExt;

    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let segment = segment(dir.path());
    let name = dir.path().join(format!("vmastat.{}", std::process::id()));
    let on_disk = || std::fs::metadata(&name).unwrap().blocks() * 512;
    let before = on_disk();
    let ring = segment.capture().unwrap();
    record(ring, 0);
    assert_eq!(on_disk(), before, "nobody has asked");
    ring.begin(100, 1_000).unwrap();
    assert!(on_disk() > before + DATA_BYTES as u64);
    let mut reader = reader(dir.path(), ring);
    ring.begin(64, 2_000).unwrap();
    record(ring, 50);
    let taken = reader.take().unwrap();
    assert_eq!(
        (taken.len, taken.bytes.len()),
        (1851, 100),
        "who wants most is content"
    );
    assert!(!ring.end_if_due(2_000 + LEASE_NSEC - 1));
    assert!(ring.end_if_due(2_000 + LEASE_NSEC) && !ring.is_wanted());
    assert!(!ring.end_if_due(u64::MAX), "it has ended");
    ring.give_back();
    assert!(on_disk() < before + 8192);
    ring.begin(64, 0).unwrap();
    record(ring, 1);
    assert_eq!(reader.take().unwrap().bytes, packet(1)[..38]);
}

#[test]
#[cfg_attr(miri, ignore = "maps a file")]
fn damage_makes_no_reader_fail() {
    let dir = tempfile::tempdir().unwrap();
    let segment = segment(dir.path());
    let ring = segment.capture().unwrap();
    ring.begin(SNAP_MAX, 0).unwrap();
    let mut reader = reader(dir.path(), ring);
    for at in [ring.offset() + 1, 0, usize::MAX, ring.offset() + 4096] {
        let statistics = Reader::open(dir.path(), std::process::id()).unwrap();
        assert!(CaptureReader::new(statistics, at).is_none(), "{at}");
    }
    let words = ring.memory.slice::<AtomicU64>(0, AREA_BYTES / 8).unwrap();
    let mut random = 1_u64;
    for round in 0..2000 {
        (0..5).for_each(|number| record(ring, number + round));
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let head = ring.head().unwrap();
        let next = head.next.load(Ordering::Relaxed);
        match round % 4 {
            0 => head.next.store(random, Ordering::Relaxed),
            1 => head.next.store(next ^ random >> 40, Ordering::Relaxed),
            _ => {
                let near = DATA_AT / 8 + offset_of(next.wrapping_sub(random >> 52)) / 8;
                words[near].store(random, Ordering::Relaxed);
            }
        }
        // It ends, whatever it says.
        let taken = std::iter::from_fn(|| reader.take()).take(10_000).count();
        assert!(taken < 10_000);
    }
}
