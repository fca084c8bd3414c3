//! What dead processes left in directories that everybody can write to.

use std::fs;
use std::io;
use std::path::Path;

/// Removes the statistics of processes that have ended; says how many. What counts as such is for
/// the reader of statistics to know.
pub(crate) fn remove_stale_statistics(stale: &[impl AsRef<Path>]) -> u64 {
    let remove = |path: &Path| {
        stats::remove_stale_control(path);
        removed(path)
    };
    stale.iter().map(|path| remove(path.as_ref())).sum()
}

/// Removes what the original library's agent of a process left.
pub(crate) fn remove_agent_files(directory: &Path, pid: i32) -> u64 {
    let names = [
        format!("vma_agent.{pid}.pid"),
        format!("vma_agent.{pid}.sock"),
    ];
    names
        .iter()
        .map(|name| removed(&directory.join(name)))
        .sum()
}

/// 1 if the file was removed. A link is removed itself, never what it points to.
fn removed(path: &Path) -> u64 {
    let is_file = fs::symlink_metadata(path).is_ok_and(|file| !file.is_dir());
    let result = if is_file {
        fs::remove_file(path)
    } else {
        Err(io::ErrorKind::NotFound.into())
    };
    u64::from(result.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_the_files_of_that_process_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        for name in ["vma_agent.7.pid", "vma_agent.7.sock", "vma_agent.77.pid"] {
            fs::write(path(name), "").unwrap();
        }
        assert_eq!(remove_agent_files(directory.path(), 7), 2);
        assert_eq!(remove_agent_files(directory.path(), 7), 0);
        assert!(path("vma_agent.77.pid").exists());
    }

    #[test]
    fn what_a_link_points_to_stays() {
        let directory = tempfile::tempdir().unwrap();
        let precious = directory.path().join("precious");
        let link = directory.path().join("vmastat.7");
        fs::write(&precious, "").unwrap();
        symlink(&precious, &link).unwrap();
        assert_eq!(remove_stale_statistics(&[&link]), 1);
        assert!(precious.exists() && !link.is_symlink());
    }
}
