//! A copy of the test program that publishes statistics until it is killed.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Where the copy of this program publishes.
const PUBLISH_IN: &str = "VMA_STATS_TEST_PUBLISH_IN";

/// What the copy runs. Returns at once in a program that is no copy.
pub(crate) fn publish_until_killed<T>(publish: impl FnOnce(&Path) -> T) {
    let Some(dir) = std::env::var_os(PUBLISH_IN) else {
        return;
    };
    let _published = publish(Path::new(&dir));
    io::stdout().write_all(b"published\n").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

/// A process that publishes in `dir`; killed, and its file left behind, at the end of the test.
pub(crate) struct Publisher(Child);

impl Publisher {
    /// Starts the copy of this program, whose test `publisher` calls [`publish_until_killed`].
    pub(crate) fn start(dir: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "publisher", "--nocapture"])
            .env(PUBLISH_IN, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        assert!(
            output
                .lines()
                .any(|line| line.unwrap().contains("published"))
        );
        Self(child)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
