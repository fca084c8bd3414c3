//! Where words go.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

use crate::failure::Failure;

/// How much `test` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loudness {
    /// A line for each step; the rest goes into a file.
    Line,
    /// All that cargo and the tests say.
    Verbose,
}

/// Where progress goes instead of standard error.
static LOG: OnceLock<File> = OnceLock::new();

/// From here on progress, and what commands write, goes to this file, which begins anew.
pub(crate) fn log_to(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    drop(fs::remove_file(path));
    // At its end, where commands write, too.
    let file = File::options()
        .create(true)
        .append(true)
        .read(true)
        .open(path)?;
    LOG.get_or_init(|| file);
    Ok(())
}

/// The log, for a command's streams. `None`: they are this program's.
pub(crate) fn log() -> Option<File> {
    LOG.get()?.try_clone().ok()
}

/// How much is in the log.
pub(crate) fn log_len() -> u64 {
    let status = LOG.get().and_then(|file| file.metadata().ok());
    status.map_or(0, |status| status.len())
}

/// The last lines of the log behind `from`.
pub(crate) fn log_tail(from: u64, lines: usize) -> String {
    let Some(file) = LOG.get() else {
        return String::new();
    };
    let mut bytes = vec![0; usize::try_from(log_len().saturating_sub(from)).unwrap_or(0)];
    if file.read_exact_at(&mut bytes, from).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// A line of progress or an error, to the log if there is one, else to standard error.
pub(crate) fn say(line: impl fmt::Display) {
    match LOG.get() {
        Some(mut file) => drop(file.write_all(format!("{line}\n").as_bytes())),
        None => tell(line),
    }
}

/// A line for whoever waits, to standard error.
pub(crate) fn tell(line: impl fmt::Display) {
    // One write, so that lines of other processes do not cut it. Nobody is left to hear of a
    // failure.
    drop(io::stderr().write_all(format!("{line}\n").as_bytes()));
}

/// A result, to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(stdout.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_begins_anew_and_has_a_tail() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("inside/log");
        assert_eq!((log_len(), log_tail(0, 9)), (0, String::new()));
        log_to(&path).unwrap();
        say("one");
        let from = log_len();
        say("two\nthree\nfour");
        assert_eq!(log_tail(from, 2), "three\nfour");
        assert_eq!(log_tail(from, 9), "two\nthree\nfour");
        assert_eq!(log_tail(0, 9), "one\ntwo\nthree\nfour");
    }
}
