//! Ctrl-C: a flag that is looked at wherever something takes long, so that the guards of
//! namespaces, processes and directories are dropped on the way out.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::failure::Failure;

/// How often a wait looks at the flag and at what it waits for. Rare enough not to show in what is
/// measured meanwhile.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(50);

static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// From here on SIGINT, SIGTERM and SIGHUP only set the flag.
pub(crate) fn install() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&INTERRUPTED))?;
    }
    Ok(())
}

/// Fails if somebody wants this program to end.
pub(crate) fn check() -> Result<(), Failure> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        Err(Failure::Interrupted)
    } else {
        Ok(())
    }
}

/// Sleeps, and fails at once if interrupted.
pub(crate) fn sleep(time: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + time;
    loop {
        check()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(POLL_INTERVAL));
    }
}
