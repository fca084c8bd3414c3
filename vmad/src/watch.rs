//! News of a directory: which files came.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Watches one directory for files whose names begin with a prefix.
#[derive(Debug)]
pub(crate) struct DirectoryWatch {
    inotify: OwnedFd,
    prefix: &'static str,
}

impl DirectoryWatch {
    pub(crate) fn new(directory: &Path, prefix: &'static str) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        inotify::add_watch(&inotify, directory, flags)?;
        Ok(Self { inotify, prefix })
    }

    /// Whether such a file came since the last time. Reads at most `MOST` events: the rest makes
    /// the descriptor readable again.
    pub(crate) fn has_news(&self) -> bool {
        const MOST: usize = 1024;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut news = false;
        for _ in 0..MOST {
            match events.next() {
                // Events that were lost may have been such files.
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => news = true,
                Ok(event) => {
                    let name = event.file_name().map(|name| name.to_bytes());
                    news |= name.is_some_and(|name| name.starts_with(self.prefix.as_bytes()));
                }
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        news
    }
}

impl AsFd for DirectoryWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_files_of_that_name_are_news() {
        let directory = tempfile::tempdir().unwrap();
        let watch = DirectoryWatch::new(directory.path(), "vmastat.").unwrap();
        assert!(!watch.has_news());
        fs::write(directory.path().join("other"), "").unwrap();
        assert!(!watch.has_news());
        fs::write(directory.path().join("vmastat.7"), "").unwrap();
        assert!(watch.has_news());
        assert!(!watch.has_news());
    }
}
