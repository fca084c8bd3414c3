//! Files of this workspace, for tests of what stands in them.

use std::fs;
use std::path::{Path, PathBuf};

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
