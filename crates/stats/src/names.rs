//! How the files of processes are named.

use std::fs;
use std::path::{Path, PathBuf};

/// File name prefix of every segment; the process id follows.
pub const FILE_PREFIX: &str = "vmastat.";

/// The path of a process's segment.
pub(crate) fn segment_path(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!("{FILE_PREFIX}{pid}"))
}

/// The paths of segments that a process may have made because somebody else has the name of
/// [`segment_path`].
pub(crate) fn other_segment_paths(dir: &Path, pid: u32) -> Vec<PathBuf> {
    let is_it = |name: &str| parse_name(name) == Some(pid) && name.contains(&format!("{pid}."));
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_it))
        .map(|entry| entry.path())
        .collect()
}

/// Hexadecimal digits behind the process id in the name that nobody can guess.
pub(crate) const TAG_DIGITS: usize = 16;

/// The process id of a file name, which must be one that the writer forms.
pub(crate) fn parse_name(name: &str) -> Option<u32> {
    let numbers = name.strip_prefix(FILE_PREFIX)?;
    let (number, tag) = numbers.split_once('.').unwrap_or((numbers, ""));
    let is_tag = tag.len() == TAG_DIGITS && tag.bytes().all(|digit| digit.is_ascii_hexdigit());
    let pid: u32 = number.parse().ok()?;
    let is_plain = number == numbers;
    (pid > 0 && number == pid.to_string() && (is_plain || is_tag)).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_as_the_writer_forms_them() {
        assert_eq!(parse_name("vmastat.17"), Some(17));
        assert_eq!(parse_name("vmastat.17.0123456789abcdef"), Some(17));
        for other in [
            "vmastat.",
            "vmastat.017",
            "vmastat.17.",
            "vmastat.17.control",
            "vmastat.17.0123456789abcde",
            "vmastat.17.0123456789abcdex",
            "vmastat.17.0123456789abcdef.control",
            "vmastat.+17",
            "vmastat.0",
            "vmastat.17x",
            "x.17",
        ] {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}
