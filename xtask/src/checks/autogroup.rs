//! The scheduler's groups of sessions (sched(7), "The autogroup feature"), which are off while
//! tests run.
//!
//! With them a low priority is one within a session only, and that of what runs beside the tests is
//! none for the programs that they start. On Linux 6.18 it is worse: beside tasks of a low priority
//! the kernel's own threads have waited for a CPU for a minute and more ("workqueue lockup" in the
//! kernel's log), 5 of 5 times with groups, 0 of 2 without.

use std::fs;
use std::path::{Path, PathBuf};

const SETTING: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// While it lives they are off, if they can be: root's to say, and not of every kernel. After a
/// SIGKILL they stay off.
#[derive(Debug)]
pub(super) struct Off(Option<PathBuf>);

impl Off {
    pub(super) fn begin() -> Self {
        Self::by(Path::new(SETTING))
    }

    fn by(setting: &Path) -> Self {
        let is_on = fs::read_to_string(setting).is_ok_and(|value| value.trim() == "1");
        let is_ours = is_on && fs::write(setting, "0").is_ok();
        Self(is_ours.then(|| setting.to_owned()))
    }
}

impl Drop for Off {
    fn drop(&mut self) {
        if let Some(setting) = &self.0 {
            // Nobody is left to tell.
            drop(fs::write(setting, "1"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_on_is_on_again_afterwards_and_what_was_off_stays_off() {
        let directory = tempfile::tempdir().unwrap();
        let setting = directory.path().join("setting");
        for (before, meanwhile) in [("1\n", "0"), ("0\n", "0\n")] {
            fs::write(&setting, before).unwrap();
            let off = Off::by(&setting);
            assert_eq!(fs::read_to_string(&setting).unwrap(), meanwhile);
            drop(off);
            assert_eq!(fs::read_to_string(&setting).unwrap().trim(), before.trim());
        }
        drop(Off::by(&directory.path().join("of another kernel")));
    }
}
