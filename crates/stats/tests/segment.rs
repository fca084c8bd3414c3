//! Writer and reader together, over real files.

use std::ffi::CString;
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use stats::{
    Capacity, CreateError, Identity, MAX_ENTRIES, PROTOCOL_UDP, ReadError, Reader, Row,
    SectionKind, Segment, Setting, find_processes, list_directory, process_start_time_ticks,
};

const CAPACITY: Capacity = Capacity {
    sockets: 3,
    connections: 3,
    rings: 2,
    pools: 1,
    reasons: 4,
    settings: 2,
    rules: 2,
};

fn identity() -> Identity {
    Identity {
        library_version: "0.1.0-test".to_owned(),
        program: "unit test".to_owned(),
    }
}

fn pid() -> u32 {
    std::process::id()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn create(dir: &Path) -> Segment {
    Segment::create(dir, &identity(), CAPACITY).unwrap()
}

fn file(dir: &Path) -> std::path::PathBuf {
    dir.join(format!("vmastat.{}", pid()))
}

#[test]
fn reader_sees_what_the_writer_counts() {
    let dir = directory();
    let segment = create(dir.path());
    let socket = segment.claim_socket();
    let local: SocketAddr = "10.0.0.1:4097".parse().unwrap();
    let peer: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
    socket.fd.set(14);
    socket.protocol.set(PROTOCOL_UDP);
    socket.set_offloaded();
    socket.local.set(local);
    socket.peer.set(peer);
    socket.inode.set(1 << 40);
    socket.rx_thread.note(77);
    socket.rx_packets.add(3);
    socket.rx_queue_packets.add(2);
    socket.tx_os_errors.add(u64::MAX);
    let ring = segment.claim_ring();
    ring.ifname.set("enp129s0f0np0");
    ring.mode.set("xdp native");
    ring.tx_full.add(9);
    let pool = segment.claim_pool();
    pool.frames.set(4096);
    pool.free.set(4000);
    segment.reason_names(&["", "fork", "IPv6"]);
    segment.count_reason(2);
    segment.count_reason(2);

    let reader = Reader::open(dir.path(), pid()).unwrap();
    let process = reader.process();
    assert_eq!(
        (process.pid, process.program.as_str()),
        (pid(), "unit test")
    );
    assert_eq!(process.library_version, "0.1.0-test");
    assert_eq!(
        Some(process.start_time_ticks),
        process_start_time_ticks(pid())
    );
    assert!(reader.is_live());

    let sockets = reader.sockets().unwrap();
    assert_eq!(sockets.len(), 1);
    let seen = &sockets[0];
    assert_eq!(
        (seen.slot, seen.generation, seen.fd, seen.protocol),
        (0, 1, 14, PROTOCOL_UDP)
    );
    assert!(seen.offloaded);
    assert_eq!(
        (seen.local, seen.peer, seen.inode),
        (Some(local), Some(peer), 1 << 40)
    );
    assert_eq!(
        (seen.rx_thread, seen.rx_packets, seen.rx_queue_packets),
        (77, 3, 2)
    );
    assert_eq!((seen.tx_os_errors, seen.tx_packets), (u64::MAX, 0));

    let rings = reader.rings().unwrap();
    assert_eq!(
        (rings[0].ifname.as_str(), rings[0].mode.as_str()),
        ("enp129s0f0np0", "xdp native")
    );
    assert_eq!((rings.len(), rings[0].tx_full), (1, 9));
    let pools = reader.pools().unwrap();
    assert_eq!(
        (pools.len(), pools[0].frames, pools[0].free),
        (1, 4096, 4000)
    );
    let reasons: Vec<_> = reader.reasons().unwrap();
    let told: Vec<_> = reasons
        .iter()
        .map(|r| (r.code, r.name.as_str(), r.count))
        .collect();
    assert_eq!(told, [(1, "fork", 0), (2, "IPv6", 2)]);

    socket.rx_packets.add(4);
    assert_eq!(
        reader.sockets().unwrap()[0].since(seen).rx_packets,
        4,
        "no new open is needed"
    );
    socket.set_not_offloaded(2, 0);
    let seen = &reader.sockets().unwrap()[0];
    assert_eq!((seen.offloaded, seen.reason), (false, 2));
}

#[test]
fn settings_and_rules_are_seen_as_they_were_described() {
    let dir = directory();
    let segment = create(dir.path());
    let long = "x".repeat(300);
    let setting = |name, value| Setting {
        name,
        value,
        origin: "environment",
    };
    let settings = [
        setting("VMA_SPEC", "latency"),
        setting("VMA_LOG_FILE", &long),
        setting("VMA_RX_POLL", "-1"),
    ];
    segment.settings(settings.into_iter());
    segment.describe_rule(2, "use os udp_sender *:1", "/etc/libvma.conf:7");
    segment.describe_rule(3, "use os udp_sender *:2", "/etc/libvma.conf:8");
    segment.describe_rule(0, "no rule", "nowhere");
    let socket = segment.claim_socket();
    socket.set_not_offloaded(1, 2);

    let reader = Reader::open(dir.path(), pid()).unwrap();
    assert_eq!(
        (reader.process().layout_major, reader.process().layout_minor),
        (stats::LAYOUT_MAJOR, stats::LAYOUT_MINOR)
    );
    let told: Vec<_> = reader
        .settings()
        .unwrap()
        .into_iter()
        .map(|setting| (setting.name, setting.value, setting.origin))
        .collect();
    let environment = || "environment".to_owned();
    assert_eq!(
        told,
        [
            ("VMA_SPEC".to_owned(), "latency".to_owned(), environment()),
            ("VMA_LOG_FILE".to_owned(), "x".repeat(128), environment()),
        ],
        "there is room for two"
    );
    assert_eq!(reader.overflowed(SectionKind::Settings).unwrap(), 1);
    let rules = reader.rules().unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!((rules[0].place, reader.sockets().unwrap()[0].rule), (1, 2));
    assert_eq!(rules[0].rule, "use os udp_sender *:1");
    assert_eq!(rules[0].origin, "/etc/libvma.conf:7");
    assert_eq!(reader.overflowed(SectionKind::Rules).unwrap(), 2);
    socket.set_offloaded();
    assert_eq!(reader.sockets().unwrap()[0].rule, 0);
}

/// A file of version 1.0 has four sections, and nothing where sockets have their rule since.
#[test]
fn file_of_the_first_version_is_still_read() {
    let dir = directory();
    let segment = create(dir.path());
    let socket = segment.claim_socket();
    socket.fd.set(5);
    socket.set_not_offloaded(1, 0);
    let mut bytes = fs::read(file(dir.path())).unwrap();
    bytes[12..16].copy_from_slice(&0_u32.to_ne_bytes());
    bytes[28..32].copy_from_slice(&4_u32.to_ne_bytes());
    fs::write(file(dir.path()), bytes).unwrap();
    let reader = Reader::open(dir.path(), pid()).unwrap();
    assert_eq!(reader.process().layout_minor, 0);
    let sockets = reader.sockets().unwrap();
    assert_eq!((sockets[0].fd, sockets[0].rule), (5, 0));
    assert!(reader.settings().unwrap().is_empty());
    assert!(reader.rules().unwrap().is_empty());
    assert_eq!(reader.capacity(SectionKind::Rules), 0);
}

#[test]
fn released_entry_disappears_and_comes_back_clean() {
    let dir = directory();
    let segment = create(dir.path());
    let reader = Reader::open(dir.path(), pid()).unwrap();
    let first = segment.claim_socket();
    let second = segment.claim_socket();
    first.fd.set(5);
    first.rx_packets.add(100);
    second.fd.set(6);
    drop(first);
    let left: Vec<_> = reader
        .sockets()
        .unwrap()
        .iter()
        .map(|socket| socket.fd)
        .collect();
    assert_eq!(left, [6]);
    let third = segment.claim_socket();
    let sockets = reader.sockets().unwrap();
    assert_eq!(
        (sockets[0].slot, sockets[0].generation),
        (0, 3),
        "the lowest entry is used again"
    );
    assert_eq!((sockets[0].fd, sockets[0].rx_packets), (-1, 0));
    drop((second, third));
    assert!(reader.sockets().unwrap().is_empty());
}

#[test]
fn full_section_counts_in_private_memory() {
    let dir = directory();
    let segment = create(dir.path());
    let reader = Reader::open(dir.path(), pid()).unwrap();
    let published: Vec<_> = (0..CAPACITY.sockets)
        .map(|_| segment.claim_socket())
        .collect();
    assert!(published.iter().all(stats::Slot::is_published));
    let extra = segment.claim_socket();
    extra.rx_packets.add(7);
    assert_eq!((extra.is_published(), extra.rx_packets.value()), (false, 7));
    assert_eq!(reader.sockets().unwrap().len(), CAPACITY.sockets as usize);
    assert_eq!(reader.overflowed(SectionKind::Sockets).unwrap(), 1);
    assert_eq!(reader.overflowed(SectionKind::Rings).unwrap(), 0);
    assert_eq!(reader.capacity(SectionKind::Sockets), CAPACITY.sockets);

    drop(published);
    assert!(segment.claim_socket().is_published());
    segment.reason_names(&["0", "1", "2", "3", "no room"]);
    segment.count_reason(CAPACITY.reasons);
    segment.count_reason(u32::MAX);
    assert_eq!(reader.overflowed(SectionKind::Reasons).unwrap(), 3);
    assert_eq!(extra.rx_packets.value(), 7);
}

#[test]
fn lasting_counters_are_those_of_the_slot_and_of_published_slots_only() {
    let segment = Segment::private(
        &identity(),
        Capacity {
            rings: 1,
            ..CAPACITY
        },
    );
    let ring = segment.claim_ring();
    let lasting = ring.lasting().unwrap();
    ring.rx_packets.add(3);
    assert_eq!(lasting.rx_packets.value(), 3);
    assert!(
        segment.claim_ring().lasting().is_none(),
        "an overflowed slot is freed when dropped"
    );
    drop(ring);
    lasting.rx_packets.add(1);
    assert_eq!(
        segment.claim_ring().rx_packets.value(),
        0,
        "a claim starts from zero"
    );
}

#[test]
fn private_segment_works_without_a_file() {
    let segment = Segment::private(&identity(), CAPACITY);
    assert!(!segment.is_published());
    let socket = segment.claim_socket();
    socket.tx_packets.add(2);
    segment.count_reason(1);
    segment.unlink();
    assert_eq!(socket.tx_packets.value(), 2);
    let without_room = Segment::private(
        &identity(),
        Capacity {
            sockets: 0,
            connections: 0,
            rings: 0,
            pools: 0,
            reasons: 0,
            settings: 0,
            rules: 0,
        },
    );
    without_room.claim_ring().rx_packets.add(1);
    without_room.count_reason(0);
    without_room.reason_names(&["x"]);
}

#[test]
fn slot_outlives_the_segment() {
    let dir = directory();
    let segment = create(dir.path());
    let socket = segment.claim_socket();
    drop(segment);
    assert!(!file(dir.path()).exists());
    socket.rx_packets.add(1);
    assert_eq!(socket.rx_packets.value(), 1);
    std::thread::spawn(move || drop(socket)).join().unwrap();
}

#[test]
fn capacity_beyond_the_limit_is_refused() {
    let dir = directory();
    let capacity = Capacity {
        rings: MAX_ENTRIES + 1,
        ..CAPACITY
    };
    let error = Segment::create(dir.path(), &identity(), capacity).unwrap_err();
    assert!(
        matches!(
            error,
            CreateError::Capacity {
                section: "rings",
                ..
            }
        ),
        "{error}"
    );
    assert!(!file(dir.path()).exists());
}

#[test]
fn file_is_readable_by_its_user_only_whatever_the_umask() {
    let dir = directory();
    // The umask belongs to the process, so the other tests of this file see it as well; none minds.
    // SAFETY: takes a number and cannot fail.
    let old = unsafe { libc::umask(0o077) };
    let segment = create(dir.path());
    // SAFETY: as above.
    unsafe { libc::umask(old) };
    let status = fs::metadata(file(dir.path())).unwrap();
    assert_eq!(status.permissions().mode() & 0o7777, 0o400);
    // Packets get theirs when somebody asks for them: a page, 16 MiB, and what lines them up.
    let for_packets = (16 << 20) + 4096 + (64 << 10);
    assert!(
        status.blocks() * 512 + for_packets >= status.len(),
        "all blocks of the sections are allocated"
    );
    drop(segment);
    assert!(!file(dir.path()).exists());
}

#[test]
fn file_left_behind_by_an_earlier_process_is_replaced() {
    let dir = directory();
    fs::write(file(dir.path()), "old").unwrap();
    let old = fs::File::open(file(dir.path())).unwrap();
    let _segment = create(dir.path());
    assert_eq!(
        old.metadata().unwrap().len(),
        3,
        "the old file is not written to"
    );
    assert!(Reader::open(dir.path(), pid()).is_ok());
}

#[test]
fn symbolic_link_is_neither_followed_nor_read() {
    let dir = directory();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, file(dir.path())).unwrap();
    let error = Reader::open(dir.path(), pid()).unwrap_err();
    assert!(matches!(error, ReadError::NotRegular { .. }), "{error}");
    let segment = create(dir.path());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(file(dir.path())).unwrap().is_file());
    drop(segment);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn file_of_another_is_not_unlinked() {
    let dir = directory();
    let segment = create(dir.path());
    fs::remove_file(file(dir.path())).unwrap();
    fs::write(file(dir.path()), "of somebody else").unwrap();
    segment.unlink();
    assert_eq!(
        fs::read_to_string(file(dir.path())).unwrap(),
        "of somebody else"
    );
}

/// Anybody can make files in the usual directory, and lock them.
#[test]
fn a_name_that_another_user_has_taken_hides_nobody() {
    const OTHER: u32 = 65_534;
    let dir = directory();
    fs::write(file(dir.path()), "taken").unwrap();
    if std::os::unix::fs::chown(file(dir.path()), Some(OTHER), Some(OTHER)).is_err() {
        // Only root can give a file away.
        return;
    }
    let held = fs::File::open(file(dir.path())).unwrap();
    held.lock().unwrap();
    let segment = create(dir.path());
    let pid = std::process::id();
    assert_eq!(fs::read_to_string(file(dir.path())).unwrap(), "taken");
    assert_eq!(Reader::open(dir.path(), pid).unwrap().process().pid, pid);
    let found = list_directory(dir.path()).unwrap();
    assert_eq!(found.live.len(), 1, "{found:?}");
    assert_ne!(found.live[0].path, file(dir.path()));
    // Neither does one that bears such a name.
    let forged = dir.path().join(format!("vmastat.{pid}.0123456789abcdef"));
    fs::copy(&found.live[0].path, &forged).unwrap();
    std::os::unix::fs::chown(&forged, Some(OTHER), Some(OTHER)).unwrap();
    assert_eq!(list_directory(dir.path()).unwrap().live.len(), 1);
    let path = found.live[0].path.clone();
    drop(segment);
    assert!(!path.exists() && file(dir.path()).exists());
}

/// Another process has locked a file until its standard input ends.
fn locked_by_another(path: &Path) -> Child {
    let mut command = Command::new("cat");
    let opened = fs::File::open(path).unwrap();
    command.stdin(Stdio::piped()).stdout(opened);
    let lock = || {
        // SAFETY: takes no memory.
        match unsafe { libc::flock(libc::STDOUT_FILENO, libc::LOCK_EX | libc::LOCK_NB) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: a system call only, between fork and exec.
    unsafe { command.pre_exec(lock) };
    command.spawn().unwrap()
}

#[test]
fn file_of_a_process_that_runs_elsewhere_stays() {
    let dir = directory();
    fs::write(file(dir.path()), "of a process of another PID namespace").unwrap();
    let mut holder = locked_by_another(&file(dir.path()));
    let error = Segment::create(dir.path(), &identity(), CAPACITY).unwrap_err();
    assert!(matches!(error, CreateError::InUse), "{error}");
    assert!(file(dir.path()).exists());
    // Of an id that no process here has.
    let elsewhere = dir.path().join(format!("vmastat.{}", i32::MAX));
    fs::write(&elsewhere, "").unwrap();
    let other = fs::File::open(&elsewhere).unwrap();
    other.lock().unwrap();
    assert!(list_directory(dir.path()).unwrap().stale.is_empty());
    other.unlock().unwrap();
    assert_eq!(list_directory(dir.path()).unwrap().stale, [elsewhere]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    let segment = create(dir.path());
    // The mapping holds the lock, though the descriptor is closed.
    let probe = fs::File::open(file(dir.path())).unwrap();
    assert!(probe.try_lock_shared().is_err());
    // Another copy of the library in this process does not take it away.
    let error = Segment::create(dir.path(), &identity(), CAPACITY).unwrap_err();
    assert!(matches!(error, CreateError::InUse), "{error}");
    drop(segment);
}

#[test]
fn file_of_another_user_is_not_believed() {
    let dir = directory();
    let _segment = create(dir.path());
    let result = std::os::unix::fs::chown(file(dir.path()), Some(54_321), None);
    if result.is_err() {
        eprintln!("skipped: only root gives files away");
        return;
    }
    let error = Reader::open(dir.path(), pid()).unwrap_err();
    assert!(
        matches!(error, ReadError::Foreign { owner: 54_321, .. }),
        "{error}"
    );
    assert!(list_directory(dir.path()).unwrap().live.is_empty());
}

#[test]
fn truncated_file_ends_neither_writer_nor_reader() {
    stats::survive_truncations().unwrap();
    let dir = directory();
    let segment = create(dir.path());
    let socket = segment.claim_socket();
    socket.rx_packets.add(1);
    let reader = Reader::open(dir.path(), pid()).unwrap();
    let truncate = || {
        let file = fs::OpenOptions::new().write(true).open(file(dir.path()));
        file.map(|file| file.set_len(0).unwrap())
    };
    if truncate().is_err() {
        eprintln!("skipped: only root truncates a file that nobody may write");
        return;
    }
    socket.rx_packets.add(1);
    assert_eq!(socket.rx_packets.value(), 1, "zeros have taken its place");
    let other = segment.claim_socket();
    other.rx_packets.add(5);
    assert_eq!(other.rx_packets.value(), 5);
    assert!(matches!(reader.sockets(), Err(ReadError::Truncated { .. })));
}

#[test]
fn impossible_places_are_errors() {
    let dir = directory();
    let create = |dir: &Path| Segment::create(dir, &identity(), CAPACITY).unwrap_err();
    assert!(matches!(create(Path::new("")), CreateError::NoDirectory));
    assert!(matches!(
        create(Path::new("/tmp/a\0b")),
        CreateError::BadDirectory
    ));
    assert!(matches!(
        create(Path::new(&"/x".repeat(3000))),
        CreateError::BadDirectory
    ));
    let error = create(&dir.path().join("missing")).to_string();
    assert!(
        error.contains("creation") && error.contains("No such file"),
        "{error}"
    );
    fs::create_dir(file(dir.path())).unwrap();
    let error = create(dir.path()).to_string();
    assert!(error.contains("removal of the old file"), "{error}");
    let error = Reader::open(dir.path(), pid()).unwrap_err();
    assert!(matches!(error, ReadError::NotRegular { .. }), "{error}");
}

#[test]
fn fifo_does_not_stop_the_reader() {
    let dir = directory();
    let path = CString::new(file(dir.path()).to_str().unwrap()).unwrap();
    // SAFETY: the path ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o644) }, 0);
    let error = Reader::open(dir.path(), pid()).unwrap_err();
    assert!(matches!(error, ReadError::NotRegular { .. }), "{error}");
}

#[test]
fn missing_file_is_named() {
    let dir = directory();
    let error = Reader::open(dir.path(), pid()).unwrap_err();
    assert!(matches!(&error, ReadError::NotFound { path, .. } if *path == file(dir.path())));
    assert!(error.to_string().contains("VMA_STATS_SHMEM_DIR"), "{error}");
}

#[test]
fn listing_tells_live_from_stale() {
    let dir = directory();
    let segment = create(dir.path());
    // Above the kernel's limit for process ids (2^22), so nobody has it.
    let dead = dir.path().join("vmastat.4194999");
    fs::write(&dead, "").unwrap();
    // Process 1 runs, but this is not a file it made, and not one of ours.
    fs::write(dir.path().join("vmastat.1"), "of another library").unwrap();
    fs::write(dir.path().join("vmastat.x"), "").unwrap();
    let listing = list_directory(dir.path()).unwrap();
    assert_eq!(listing.stale, [dead]);
    assert_eq!(listing.live.len(), 1);
    assert_eq!(
        (listing.live[0].pid, listing.live[0].program.as_str()),
        (pid(), "unit test")
    );
    drop(segment);
    assert!(find_processes(dir.path()).unwrap().is_empty());
    assert!(find_processes(&dir.path().join("missing")).is_err());
}

#[test]
fn segment_of_an_earlier_holder_of_the_process_id_is_stale() {
    let dir = directory();
    let _segment = create(dir.path());
    let mut bytes = fs::read(file(dir.path())).unwrap();
    bytes[32..40].copy_from_slice(&1_u64.to_ne_bytes());
    fs::write(file(dir.path()), bytes).unwrap();
    let listing = list_directory(dir.path()).unwrap();
    assert_eq!(
        (listing.live.len(), listing.stale),
        (0, vec![file(dir.path())])
    );
}

#[test]
fn forked_child_neither_unlinks_nor_counts_for_its_parent() {
    let dir = directory();
    let segment = create(dir.path());
    let socket = segment.claim_socket();
    socket.fd.set(5);
    socket.rx_packets.add(1);
    segment.reason_names(&["zero"]);
    let ok = in_child(|| {
        let not_owner = !segment.is_published();
        segment.unlink();
        segment.count_reason(0);
        not_owner
    });
    assert!(ok);
    let reader = Reader::open(dir.path(), pid()).unwrap();
    assert_eq!(reader.sockets().unwrap()[0].rx_packets, 1);
    assert!(reader.rings().unwrap().is_empty());
    assert_eq!(reader.reasons().unwrap()[0].count, 0);
    socket.rx_packets.add(1);
    assert_eq!(reader.sockets().unwrap()[0].rx_packets, 2);
}

#[test]
fn forked_child_claims_and_releases_nothing() {
    let dir = directory();
    let segment = create(dir.path());
    let socket = segment.claim_socket();
    let slots = std::cell::Cell::new(Some(socket));
    let ok = in_child(|| {
        drop(slots.take());
        true
    });
    assert!(ok);
    let reader = Reader::open(dir.path(), pid()).unwrap();
    let sockets = reader.sockets().unwrap();
    assert_eq!((sockets.len(), sockets[0].generation), (1, 1));
}

/// Runs `work` in a forked child, which must not allocate: another test's thread may hold the heap.
fn in_child(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls nothing that takes a lock and ends with `_exit`.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let code = i32::from(!work());
        // SAFETY: ends the child without running the exit handlers of the test program.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `status` is writable.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}
