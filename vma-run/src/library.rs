//! Where the library is.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

const NAME: &str = "libvma.so";

/// Where systems have their libraries: the loader's own directories.
const DIRECTORIES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib",
];

/// The file that was asked for, else the one beside this program (a build), else the system's.
pub(crate) fn find(asked: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = asked {
        return std::path::absolute(path)
            .ok()
            .filter(|path| path.is_file())
            .ok_or_else(|| format!("there is no {}", path.display()));
    }
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_owned);
    beside
        .into_iter()
        .chain(DIRECTORIES.iter().map(PathBuf::from))
        .map(|directory| directory.join(NAME))
        .find(|path| path.is_file())
        .ok_or_else(|| {
            format!(
                "there is no {NAME} in {}; name it with --library",
                DIRECTORIES.join(", ")
            )
        })
}

/// The value of LD_PRELOAD: the library before what is preloaded already.
pub(crate) fn preload(library: OsString, before: Option<OsString>) -> OsString {
    match before.filter(|before| !before.is_empty()) {
        None => library,
        Some(before) => {
            let mut all = library;
            all.push(":");
            all.push(before);
            all
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_file_that_was_asked_for_must_be_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("other.so");
        assert!(find(Some(&file)).unwrap_err().contains("other.so"));
        fs::write(&file, "").unwrap();
        assert_eq!(find(Some(&file)), Ok(file));
    }

    #[test]
    fn what_is_preloaded_already_stays() {
        assert_eq!(preload("a.so".into(), None), "a.so");
        assert_eq!(preload("a.so".into(), Some("".into())), "a.so");
        assert_eq!(preload("a.so".into(), Some("b.so".into())), "a.so:b.so");
    }
}
