//! `cargo xtask test` leaves nothing behind when it is told to end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testkit::{Namespace, or_skip};

/// What stands for cargo: has a namespace as a test program has, with a server inside that is no
/// child of anybody's, and hears of no end.
const CARGO: &str = "#!/bin/sh
case $* in *--version) exit ;; esac
trap '' TERM INT
ip netns add vmat-$$-0-x
setsid ip netns exec vmat-$$-0-x sh -c 'trap \"\" TERM; while :; do sleep 1; done' &
echo $$ > \"$STARTED\"
wait
";

struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = what() {
            return found;
        }
        assert!(Instant::now() < end, "nothing came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_signal_leaves_no_process_and_no_namespace() {
    // Whether this machine can have any.
    drop(or_skip!(Namespace::create("probe")));
    let directory = tempfile::tempdir().unwrap();
    let cargo = directory.path().join("cargo");
    let started = directory.path().join("started");
    fs::write(&cargo, CARGO).unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .args(["test", "--quick"])
        .env("CARGO", &cargo)
        .env("STARTED", &started)
        .env("CARGO_TARGET_DIR", directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut xtask = Ended(command.spawn().unwrap());
    let pid = wait_for(|| {
        let text = fs::read_to_string(&started).ok()?;
        text.trim().parse::<u32>().ok()
    });
    let namespace = format!("/var/run/netns/vmat-{pid}-0-x");
    assert!(Path::new(&namespace).exists());
    let server = wait_for(|| {
        let pids = Command::new("ip")
            .args(["netns", "pids", &format!("vmat-{pid}-0-x")])
            .output()
            .unwrap();
        let pids = String::from_utf8(pids.stdout).unwrap();
        pids.split_whitespace().next()?.parse::<u32>().ok()
    });
    let killed = Command::new("kill")
        .args(["-TERM", &xtask.0.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let status = wait_for(|| xtask.0.try_wait().unwrap());
    assert_eq!(status.code(), Some(130));
    for pid in [pid, server] {
        let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_over = status.is_empty() || status.contains(") Z ");
        assert!(is_over, "{status}");
    }
    assert!(!Path::new(&namespace).exists());
}
