//! Scripts: found, read and played many at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use packetdrill::script::Script;
use packetdrill::{Failure, parse_with};

/// What the corpus' own driver defines for IPv4.
const DEFINES: [(&str, &str); 4] = [
    ("TFO_COOKIE", "3021b9d889017eeb"),
    ("CODE", "host_unreachable"),
    ("CMSG_LEVEL_IP", "SOL_IP"),
    ("CMSG_TYPE_RECVERR", "IP_RECVERR"),
];

/// All scripts below `directory`, sorted.
pub(crate) fn find(directory: &Path) -> Vec<PathBuf> {
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

/// Where the scripts of this crate are.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts")
}

/// The scripts of this crate.
pub(crate) fn own() -> Vec<PathBuf> {
    let own = find(&root());
    assert!(!own.is_empty(), "no scripts");
    own
}

/// Reads and parses a script; one that cannot be parsed is unsupported.
pub(crate) fn read(path: &Path) -> Result<Script, Failure> {
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
pub(crate) fn play_all(
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

/// Scripts that are known to differ, with the reason: lines of `name: reason`. `#` begins a comment.
pub(crate) struct Expected {
    file: PathBuf,
    reasons: BTreeMap<String, String>,
}

impl Expected {
    /// Reads `name` in the directory of tests.
    pub(crate) fn read(name: &str) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests")
            .join(name);
        let text =
            fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
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
            file,
        }
    }

    /// What is wrong: scripts that fail unexpectedly, that pass unexpectedly, or that are listed and not there.
    pub(crate) fn judge(
        &self,
        root: &Path,
        scripts: &[PathBuf],
        failures: &[(PathBuf, Failure)],
    ) -> String {
        let name = |path: &PathBuf| {
            path.strip_prefix(root)
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned()
        };
        let failed: BTreeSet<String> = failures.iter().map(|(path, _)| name(path)).collect();
        let unexpected = failures
            .iter()
            .filter(|(path, _)| !self.reasons.contains_key(&name(path)));
        let mut text: String = unexpected
            .map(|(_, failure)| format!("{failure}\n\n"))
            .collect();
        for script in self
            .reasons
            .keys()
            .filter(|script| !failed.contains(*script))
        {
            let there = scripts.iter().any(|path| name(path) == *script);
            let what = if there { "passes" } else { "is not there" };
            text += &format!("{script} {what}, but {} lists it\n", self.file.display());
        }
        text
    }
}

/// The failures as text, or nothing.
pub(crate) fn report(failures: &[(PathBuf, Failure)]) -> String {
    failures
        .iter()
        .map(|(_, failure)| format!("{failure}\n\n"))
        .collect()
}
