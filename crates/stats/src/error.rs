//! What can go wrong when a segment is made or read.

use std::io;
use std::path::PathBuf;

/// Why no file could be published. The caller goes on with
/// [`Segment::private`](crate::Segment::private).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    #[error("the statistics directory is empty: no file is published")]
    NoDirectory,
    #[error("the statistics directory's path holds a zero byte or is longer than PATH_MAX")]
    BadDirectory,
    #[error("{entries} {section} entries asked for, at most {most} are possible")]
    Capacity {
        section: &'static str,
        entries: u32,
        most: u32,
    },
    #[error("{bytes} bytes of statistics exceed the file size limit (RLIMIT_FSIZE) of {limit}")]
    FileSizeLimit { bytes: u64, limit: u64 },
    #[error("the file of this process id is in use by a process of another PID namespace")]
    InUse,
    #[error("{operation} of the statistics file failed: {source}")]
    System {
        operation: &'static str,
        source: io::Error,
    },
}

/// Why a segment could not be opened or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    #[error(
        "no statistics of process {pid}: {} does not exist (does the process run with libvma, and \
         is this its VMA_STATS_SHMEM_DIR?)",
        .path.display()
    )]
    NotFound { pid: u32, path: PathBuf },
    #[error("cannot {operation} {}: {source}", .path.display())]
    System {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is not a regular file", .path.display())]
    NotRegular { path: PathBuf },
    #[error("{} belongs to user {owner}, process {pid} does not", .path.display())]
    Foreign { path: PathBuf, owner: u32, pid: u32 },
    #[error("{} is not a statistics file of this library, or is still being made", .path.display())]
    NotStatistics { path: PathBuf },
    #[error(
        "{} has statistics layout {major}.{minor}, this program reads {}.x: use the vma_stats that \
         came with the library",
        .path.display(), crate::LAYOUT_MAJOR
    )]
    Version {
        path: PathBuf,
        major: u32,
        minor: u32,
    },
    #[error("{} is truncated: {actual} bytes, expected at least {expected}", .path.display())]
    Truncated {
        path: PathBuf,
        actual: u64,
        expected: u64,
    },
    #[error("{} is damaged: {what}", .path.display())]
    Damaged { path: PathBuf, what: &'static str },
}
