//! Finds the process to show, and removes what dead ones left.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use stats::{Listing, ReadError, Reader, list_directory};

use crate::cli::{Options, Process, usage};
use crate::message::tell;

/// Why there is nothing to show.
#[derive(Debug)]
pub(crate) enum SelectError {
    /// No live process, or none of the wanted name.
    NoProcess,
    Read(ReadError),
}

impl fmt::Display for SelectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The original's sentence, misspelling included: scripts look for it.
            Self::NoProcess => write!(
                formatter,
                "Failed to identify process please provide pid of active proccess...\n{}",
                usage()
            ),
            Self::Read(error) => write!(formatter, "{error}"),
        }
    }
}

/// Opens the statistics of the process that the options ask for.
pub(crate) fn select(options: &Options) -> Result<Reader, SelectError> {
    let directory = &options.directory;
    let listing = listing(options);
    let pid = match &options.process {
        Process::Pid(pid) => Some(*pid),
        Process::FirstLive => listing.live.first().map(|process| process.pid),
        Process::Name(name) => {
            let has_name = |process: &&stats::Published| runs(process, name);
            listing
                .live
                .iter()
                .find(has_name)
                .map(|process| process.pid)
        }
    };
    let pid = pid.ok_or(SelectError::NoProcess)?;
    Reader::open(directory, pid).map_err(SelectError::Read)
}

/// The processes that publish. The files of those that are gone are removed, unless that is
/// forbidden.
pub(crate) fn listing(options: &Options) -> Listing {
    let directory = &options.directory;
    let listing = list_directory(directory).unwrap_or_else(|error| {
        tell(format_args!("cannot list {}: {error}", directory.display()));
        Listing::default()
    });
    if !options.keep_stale {
        remove_stale(&listing);
    }
    listing
}

/// Whether the process runs the program `name`: by the name that `ps` and this program show, or by
/// its executable, whose name may be longer or another where that was started by a symbolic link.
fn runs(process: &stats::Published, name: &str) -> bool {
    let executable = || fs::read_link(format!("/proc/{}/exe", process.pid));
    process.program == name || executable().is_ok_and(|path| file_name(&path) == name)
}

/// The kernel marks an executable that was replaced while it runs.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(" (deleted)").unwrap_or(&name).to_owned()
}

fn remove_stale(listing: &Listing) {
    for path in &listing.stale {
        stats::remove_stale_control(path);
        match fs::remove_file(path) {
            // What is no file of a process's is nobody's business: anybody may put it there.
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::IsADirectory
                ) =>
            {
                tell(format_args!("cannot remove {}: {error}", path.display()));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_name_is_that_of_the_executable() {
        assert_eq!(
            file_name(Path::new("/usr/bin/redis-server")),
            "redis-server"
        );
        assert_eq!(file_name(Path::new("/opt/feed (deleted)")), "feed");
    }

    #[test]
    fn name_matches_what_is_shown_or_the_executable() {
        let own = file_name(&std::env::current_exe().unwrap());
        let process = |pid, program: &str| stats::Published {
            pid,
            program: program.to_owned(),
            path: "vmastat".into(),
        };
        assert!(runs(&process(std::process::id(), "link"), &own));
        assert!(runs(&process(std::process::id(), "link"), "link"));
        assert!(!runs(&process(std::process::id(), "link"), "other"));
        // No process has this id, so only the name in the file is left.
        assert!(runs(&process(4_194_999, "other"), "other"));
    }
}
