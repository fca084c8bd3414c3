//! Entries of connections, which get memory as they are needed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use stats::{Capacity, Identity, Reader, SectionKind, Segment};

const CONNECTIONS: u32 = 16_384;

fn segment(dir: &Path) -> Segment {
    let identity = Identity {
        library_version: "0.1.0-test".to_owned(),
        program: "unit test".to_owned(),
    };
    let capacity = Capacity {
        sockets: 3,
        connections: CONNECTIONS,
        rings: 2,
        pools: 1,
        reasons: 4,
        settings: 2,
        rules: 2,
    };
    Segment::create(dir, &identity, capacity).unwrap()
}

fn pid() -> u32 {
    std::process::id()
}

/// What the segment takes on its disk.
fn disk_bytes(dir: &Path) -> u64 {
    let status = fs::metadata(dir.join(format!("vmastat.{}", pid()))).unwrap();
    status.blocks() * 512
}

/// Where disks are memory, so that a look at what has none takes some.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

#[test]
fn connections_get_memory_when_there_are_any() {
    let dir = directory();
    let segment = segment(dir.path());
    let empty = disk_bytes(dir.path());
    assert!(empty < 512 << 10, "{empty} bytes without a connection");
    let reader = Reader::open(dir.path(), pid()).unwrap();
    assert_eq!(reader.capacity(SectionKind::TcpConnections), CONNECTIONS);
    assert_eq!(reader.tcp_connections().unwrap().len(), 0);
    assert_eq!(disk_bytes(dir.path()), empty, "the reader took memory");

    let slots: Vec<_> = (0..1000)
        .map(|number| {
            let slot = segment.claim_tcp_connection();
            slot.fd.set(number);
            slot
        })
        .collect();
    assert!(slots.iter().all(stats::Slot::is_published));
    let fds: Vec<_> = reader
        .tcp_connections()
        .unwrap()
        .iter()
        .map(|it| it.fd)
        .collect();
    assert_eq!(fds, (0..1000).collect::<Vec<_>>());
    let many = disk_bytes(dir.path());
    assert!(many > empty + 200_000, "{many} bytes with 1,000");
    assert!(many < empty + (1 << 20), "{many} bytes with 1,000");
    segment.zero();
    assert_eq!(disk_bytes(dir.path()), many, "zeroing took memory");
}

#[test]
fn threads_that_need_memory_at_once_get_it() {
    let dir = directory();
    let segment = segment(dir.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let slots: Vec<_> = (0..4096).map(|_| segment.claim_tcp_connection()).collect();
                assert!(slots.iter().all(stats::Slot::is_published));
                // Held by no other thread.
                for slot in &slots {
                    slot.snd_nxt.set(1);
                }
                slots
                    .iter()
                    .for_each(|it| assert_eq!(it.snd_nxt.value(), 1));
            });
        }
    });
}

/// A disk of 1 MiB, of this process alone.
fn small_disk(at: &Path) -> bool {
    let path = std::ffi::CString::new(at.to_str().unwrap()).unwrap();
    let (kind, options) = (c"tmpfs", c"size=1m");
    // SAFETY: takes a number.
    if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 {
        return false;
    }
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let (root, nothing) = (c"/".as_ptr(), std::ptr::null());
    // SAFETY: the strings end with a zero byte.
    let is_private = unsafe { libc::mount(kind.as_ptr(), root, nothing, private, nothing.cast()) };
    let (kind, options) = (kind.as_ptr(), options.as_ptr().cast());
    // SAFETY: as above.
    let is_mounted = unsafe { libc::mount(kind, path.as_ptr(), kind, 0, options) };
    is_private == 0 && is_mounted == 0
}

#[test]
fn full_disk_costs_the_display_of_a_connection_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    // What a thread does to its mounts ends with it.
    let thread = std::thread::spawn(move || {
        if !small_disk(&path) {
            testkit::skip("not root: a disk of its own takes CAP_SYS_ADMIN");
            return;
        }
        let segment = segment(&path);
        let slots: Vec<_> = (0..CONNECTIONS)
            .map(|_| segment.claim_tcp_connection())
            .collect();
        for slot in &slots {
            slot.snd_nxt.set(7);
        }
        let shown = slots.iter().filter(|it| it.is_published()).count();
        assert!(
            (64..CONNECTIONS as usize / 2).contains(&shown),
            "{shown} are shown"
        );
        let reader = Reader::open(&path, pid()).unwrap();
        let missing = reader.overflowed(SectionKind::TcpConnections).unwrap();
        assert_eq!(missing, u64::from(CONNECTIONS) - shown as u64);
    });
    thread.join().unwrap();
}
