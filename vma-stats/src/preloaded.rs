//! Processes that run with the library and publish nothing: what a user looks for in vain.

use std::fs;

/// A process that has the library in memory.
#[derive(Debug)]
pub(crate) struct Preloaded {
    pub(crate) pid: u32,
    /// What it calls itself.
    pub(crate) name: String,
}

/// Those that this user may look into, or only `pid`.
pub(crate) fn processes(pid: Option<u32>) -> Vec<Preloaded> {
    let pids: Vec<u32> = match pid {
        Some(pid) => vec![pid],
        None => fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect(),
    };
    pids.into_iter().filter_map(look_at).collect()
}

fn look_at(pid: u32) -> Option<Preloaded> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    has_library(&maps).then(|| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Preloaded {
            pid,
            name: name.trim_end().replace(char::is_control, "?"),
        }
    })
}

/// The path ends each line of `/proc/PID/maps` that has one.
fn has_library(maps: &str) -> bool {
    maps.lines().any(|line| {
        let path = line.strip_suffix(" (deleted)").unwrap_or(line);
        path.rsplit('/')
            .next()
            .is_some_and(|name| name.starts_with("libvma.so"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_known_by_its_file_name() {
        let line = |path: &str| format!("7f00-7f01 r-xp 00000000 fe:00 17 {path}\n");
        for path in [
            "/opt/libvma.so",
            "/usr/lib/libvma.so.1",
            "/x/libvma.so (deleted)",
        ] {
            assert!(has_library(&(line("/bin/cat") + &line(path))), "{path}");
        }
        for path in ["/libvma.so/cat", "/opt/mylibvma.so", "[heap]", ""] {
            assert!(!has_library(&line(path)), "{path}");
        }
    }
}
