//! Files of this workspace, for tests of what stands in them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::library::workspace;

/// All files below `directory`, sorted, except what cargo and git have made. Links are not
/// followed.
///
/// # Panics
///
/// If a directory cannot be read.
pub fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory)
            .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
        for entry in entries {
            let entry = entry.expect("a directory can be read");
            let path = entry.path();
            if !entry.file_type().expect("a file has a type").is_dir() {
                files.push(path);
            } else if !path.ends_with("target") && !path.ends_with(".git") {
                directories.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Where the sources are of what ships, and of what tests it.
pub const SOURCES: [&str; 7] = [
    "crates",
    "libvma/src",
    "sockperf-rs/src",
    "vma-run/src",
    "vma-stats/src",
    "vmad/src",
    "xtask/src",
];

/// The Rust sources below these places of the workspace: paths from there, and texts.
pub fn rust_sources(places: &[&str]) -> Vec<(String, String)> {
    let workspace = workspace();
    let files = places
        .iter()
        .flat_map(|place| files_below(&workspace.join(place)));
    let sources = files.filter(|file| file.extension().is_some_and(|it| it == "rs"));
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("it can be read");
        let place = file.strip_prefix(&workspace).expect("it is below");
        (place.to_string_lossy().into_owned(), text)
    };
    sources.map(read).collect()
}

/// The paths that a source file names behind `crate::`, groups of imports taken apart, but not in
/// its tests.
pub fn crate_paths(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    let mut paths = Vec::new();
    for (at, word) in text.match_indices("crate::") {
        let before = &text[..at];
        let is_other = |c: char| c.is_alphanumeric() || "_:$".contains(c);
        // A visibility (`pub(in crate::a)`) uses nothing.
        if !before.ends_with("(in ") && !before.ends_with(is_other) {
            take_path(&text[at + word.len()..], "", &mut paths);
        }
    }
    paths
}

/// Takes the path, or the group, that a text begins with. Returns what is behind it.
fn take_path<'text>(text: &'text str, before: &str, paths: &mut Vec<String>) -> &'text str {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !is_part(c)).unwrap_or(text.len());
    let path = format!("{before}{}", &text[..end]);
    let Some(mut rest) = text[end..]
        .strip_prefix('{')
        .filter(|_| end == 0 || path.ends_with("::"))
    else {
        paths.push(path);
        return &text[end..];
    };
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if rest.is_empty() || rest.starts_with('}') {
            return rest.strip_prefix('}').unwrap_or(rest);
        }
        let behind = take_path(rest, &path, paths);
        // `as name`, or what is no import.
        let next = behind.find([',', '}']).unwrap_or(behind.len());
        rest = &behind[next..];
    }
}
