//! Scripts: found, read and played many at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::parser::parse_with;
use crate::runner::Failure;
use crate::script::Script;

/// What the corpus' own driver defines for IPv4.
const DEFINES: [(&str, &str); 4] = [
    ("TFO_COOKIE", "3021b9d889017eeb"),
    ("CODE", "host_unreachable"),
    ("CMSG_LEVEL_IP", "SOL_IP"),
    ("CMSG_TYPE_RECVERR", "IP_RECVERR"),
];

/// All scripts below `directory`, sorted.
///
/// # Panics
///
/// If a directory cannot be read.
pub fn find(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for entry in entries {
            let path = entry.expect("a directory can be read").path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Reads and parses a script; one that cannot be parsed is unsupported.
///
/// # Panics
///
/// If the file cannot be read.
pub fn read(path: &Path) -> Result<Script, Failure> {
    let text = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = String::from_utf8_lossy(&text);
    parse_with(&path.to_string_lossy(), &text, &DEFINES).map_err(|error| Failure {
        path: error.path,
        place: error.place,
        message: error.message,
        unsupported: true,
    })
}

/// Plays all of `scripts`, `thread_count` at a time; the failures, in their order.
///
/// # Panics
///
/// If `play` does.
pub fn play_all(
    scripts: &[PathBuf],
    thread_count: usize,
    play: impl Fn(&Path) -> Result<(), Failure> + Sync,
) -> Vec<(PathBuf, Failure)> {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread_count {
            scope.spawn(|| {
                while let Some(path) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(failure) = play(path) {
                        let mut failures = failures.lock().expect("no other thread panicked");
                        failures.push((path.clone(), failure));
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().expect("no thread panicked");
    failures.sort_by(|a, b| a.0.cmp(&b.0));
    failures
}

/// Scripts that are known to be different, with the reason: lines of `name: reason`. `#` begins a
/// comment.
pub struct Expected {
    file: PathBuf,
    /// What the names begin from.
    root: PathBuf,
    reasons: BTreeMap<String, String>,
}

impl Expected {
    /// Reads the list of scripts below `root`.
    ///
    /// # Panics
    ///
    /// If the file cannot be read, or a line has no reason.
    pub fn read(file: &Path, root: &Path) -> Self {
        let text =
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pairs = lines.map(|line| {
            let (script, reason) = line
                .split_once(": ")
                .unwrap_or_else(|| panic!("{line:?} has no reason"));
            (script.to_owned(), reason.to_owned())
        });
        Self {
            reasons: pairs.collect(),
            file: file.to_owned(),
            root: root.to_owned(),
        }
    }

    /// Whether a script is listed.
    pub fn has(&self, path: &Path) -> bool {
        self.reasons.contains_key(&self.name(path))
    }

    fn name(&self, path: &Path) -> String {
        let name = path.strip_prefix(&self.root).unwrap_or(path);
        name.to_string_lossy().into_owned()
    }

    /// What is wrong: of the scripts that were played those that fail unexpectedly or pass
    /// unexpectedly, and what is listed and not there.
    pub fn judge(&self, played: &[PathBuf], failures: &[(PathBuf, Failure)]) -> String {
        let failed: BTreeSet<String> = failures.iter().map(|(path, _)| self.name(path)).collect();
        let played: BTreeSet<String> = played.iter().map(|path| self.name(path)).collect();
        let unexpected = failures.iter().filter(|(path, _)| !self.has(path));
        let mut text: String = unexpected
            .map(|(_, failure)| format!("{failure}\n\n"))
            .collect();
        for script in self.reasons.keys().filter(|it| !failed.contains(*it)) {
            let what = if played.contains(script) {
                "passes"
            } else if self.root.join(script).exists() {
                continue;
            } else {
                "is not there"
            };
            text += &format!("{script} {what}, but {} lists it\n", self.file.display());
        }
        text
    }
}

/// The failures as text, or nothing.
pub fn report(failures: &[(PathBuf, Failure)]) -> String {
    failures
        .iter()
        .map(|(_, failure)| format!("{failure}\n\n"))
        .collect()
}
