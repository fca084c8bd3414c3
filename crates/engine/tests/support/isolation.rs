//! Every test runs in a network namespace of its own where that is possible, and under a watchdog.

use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What a test may take on a busy machine before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(240);

/// Addresses of the test interfaces on `lo`, which makes all of both subnets local: any peer can be
/// played there.
const ADDRESSES: &str =
    "link set lo up\naddr add 10.0.0.1/24 dev lo\naddr add 10.1.0.1/24 dev lo\n";

/// Runs a test in a network namespace of its own. Without the right to make one it runs in that of
/// the process: nothing that such a process can do gets onto a network.
pub fn isolated(test: impl FnOnce() + Send + 'static) {
    watched(move || {
        let _ = enter_own_namespace();
        test();
    });
}

/// The same for a test that needs real addresses; skips it where they are not to be had.
pub fn with_addresses(test: impl FnOnce() + Send + 'static) {
    watched(move || match enter_own_namespace() {
        Ok(()) => test(),
        Err(reason) => eprintln!("skipped: {reason}"),
    });
}

/// Runs a test in a thread of its own and fails when it does not end.
fn watched(test: impl FnOnce() + Send + 'static) {
    let (done_tx, done_rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(test));
        let _ = done_tx.send(());
        if let Err(panic) = outcome {
            panic::resume_unwind(panic);
        }
    });
    match done_rx.recv_timeout(PATIENCE) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                panic::resume_unwind(panic);
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("stuck: deadlock or endless loop"),
    }
}

/// Whether `body` ends within a time that no correct run comes near. If it does not, its thread
/// stays behind.
pub fn ends_in_time(body: impl FnOnce() + Send + 'static) -> bool {
    let (done_tx, done_rx) = mpsc::channel();
    thread::spawn(move || {
        body();
        let _ = done_tx.send(());
    });
    done_rx.recv_timeout(Duration::from_secs(60)).is_ok()
}

fn enter_own_namespace() -> Result<(), String> {
    // SAFETY: unshare takes an integer; it changes the network of this thread and its children
    // alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = std::io::Error::last_os_error();
        return Err(format!("a network namespace needs CAP_SYS_ADMIN: {error}"));
    }
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("ip(8): {error}"))?;
    if let Some(mut stdin) = ip.stdin.take() {
        stdin
            .write_all(ADDRESSES.as_bytes())
            .map_err(|error| format!("ip(8): {error}"))?;
    }
    match ip.wait() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("ip(8): {other:?}")),
    }
}
