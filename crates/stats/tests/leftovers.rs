//! What dead processes have left is removed, and nothing else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use stats::{Capacity, Identity, Segment, remove_leftovers};

/// No process has such a number, nor one a little greater (`PID_MAX_LIMIT`).
const NOBODY: u32 = 1 << 22;
const NOT_US: u32 = 65_534;

fn left_by(dir: &Path, pid: u32) -> PathBuf {
    let path = dir.join(format!("vmastat.{pid}"));
    fs::write(&path, "of another version").unwrap();
    path
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn files_of_the_dead_go_and_all_else_stays() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    left_by(dir.path(), NOBODY);
    let _control =
        UnixDatagram::bind(dir.path().join(format!("vmastat.{NOBODY}.control"))).unwrap();
    fs::write(at(&format!("vmastat.{NOBODY}.0123456789abcdef")), "").unwrap();
    // Of processes that run, or that others see.
    let capacity = Capacity {
        sockets: 1,
        connections: 0,
        rings: 1,
        pools: 1,
        reasons: 1,
        settings: 1,
        rules: 1,
    };
    let identity = Identity {
        library_version: String::new(),
        program: String::new(),
    };
    let own = Segment::create(dir.path(), &identity, capacity).unwrap();
    left_by(dir.path(), 1);
    let used = fs::File::open(left_by(dir.path(), NOBODY + 1)).unwrap();
    used.lock().unwrap();
    // What is no file, or of another name.
    let target = at("target");
    fs::write(&target, "").unwrap();
    symlink(&target, at(&format!("vmastat.{}", NOBODY + 2))).unwrap();
    fs::create_dir(at(&format!("vmastat.{}", NOBODY + 3))).unwrap();
    for name in ["vmastat.", "vmastat.04194304", "vmastat.4194304x"] {
        fs::write(at(name), "").unwrap();
    }
    let before = names(dir.path());
    assert_eq!(remove_leftovers(dir.path()), 2);
    let mut expected = before;
    let dead = format!("vmastat.{NOBODY}");
    expected.retain(|name| {
        let rest = name.strip_prefix(&dead);
        !matches!(rest, Some("" | ".control" | ".0123456789abcdef"))
    });
    assert_eq!(names(dir.path()), expected);
    assert_eq!(remove_leftovers(dir.path()), 0);
    drop(own);
}

#[test]
fn a_call_removes_no_more_than_64() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..70 {
        left_by(dir.path(), NOBODY + number);
    }
    let removed = [64, 6, 0].map(|_| remove_leftovers(dir.path()));
    assert_eq!(removed, [64, 6, 0]);
}

#[test]
fn files_of_another_user_stay_unless_root_looks() {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: only root gives files away");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Not sticky: it is not the kernel that refuses.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let of_root = left_by(dir.path(), NOBODY);
    let theirs = left_by(dir.path(), NOBODY + 1);
    chown(&theirs, Some(NOT_US), None).unwrap();
    let look = || {
        // SAFETY: takes numbers; the raw call changes this thread only.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, -1, NOT_US, -1) };
        assert_eq!(result, 0);
        remove_leftovers(dir.path())
    };
    let removed = std::thread::scope(|scope| scope.spawn(look).join().unwrap());
    assert_eq!(
        (removed, theirs.exists(), of_root.exists()),
        (1, false, true)
    );
    left_by(dir.path(), NOBODY + 1);
    chown(&theirs, Some(NOT_US), None).unwrap();
    assert_eq!(remove_leftovers(dir.path()), 2);
}
