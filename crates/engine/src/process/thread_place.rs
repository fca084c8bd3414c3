//! Where the internal thread runs.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the internal thread runs. Empty: wherever the kernel likes.
#[derive(Clone, Debug, Default)]
pub struct ThreadPlace {
    /// `VMA_INTERNAL_THREAD_AFFINITY`: processors by number.
    pub cpus: Option<Vec<u32>>,
    /// The user has named them, so that it is worth a warning if they cannot be had.
    pub cpus_are_asked_for: bool,
    /// `VMA_INTERNAL_THREAD_CPUSET`: a directory as of `cpuset(7)`, or of control groups
    /// (`cgroups(7)`).
    pub cpuset: Option<PathBuf>,
}

impl ThreadPlace {
    /// Puts the calling thread there. What cannot be done is logged.
    pub(crate) fn take(&self) {
        if let Some(directory) = &self.cpuset
            && let Err(error) = enter(directory)
        {
            let directory = directory.display();
            log::warn!("the internal thread stays out of the cpuset {directory}: {error}");
        }
        if let Some(cpus) = &self.cpus
            && let Err(error) = sys::run_on(cpus)
        {
            let level = match self.cpus_are_asked_for {
                true => log::Level::Warn,
                false => log::Level::Debug,
            };
            log::log!(
                level,
                "the internal thread runs on any CPU, not on {cpus:?}: {error}"
            );
        }
    }
}

/// Version 1 of control groups has threads in `tasks`, version 2 in `cgroup.threads`.
fn enter(directory: &Path) -> std::io::Result<()> {
    let thread = sys::thread_id().to_string();
    let write = |file| {
        let path = directory.join(file);
        // The file must be there already: elsewhere one would be made.
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).open(path)?;
        std::io::Write::write_all(&mut file, thread.as_bytes())
    };
    write("tasks").or_else(|error| match error.kind() {
        std::io::ErrorKind::NotFound => write("cgroup.threads"),
        _ => Err(error),
    })
}
