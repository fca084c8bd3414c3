//! `VMA_STATS_FILE`: what each socket did, appended when it is closed or the program exits.

use std::fmt::Write;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use descriptors::OwnDescriptor;
use stats::{OpenSockets, Segment, SocketStats};
use vma_config::Config;

use crate::log_sink;

/// Where it is written to, and the sockets that are still open.
struct Report {
    file: OwnDescriptor,
    open: OpenSockets,
    /// The program exits, which some do twice: by exit(3), and then by _exit(2).
    is_over: AtomicBool,
}

/// Null, or a report that is never freed: a forked child, whose own takes its place, may have a
/// thread that just uses it.
static REPORT: AtomicPtr<Report> = AtomicPtr::new(ptr::null_mut());

/// Reports of the sockets of this segment, if the user wants that.
pub(crate) fn start(config: &Config, segment: &Segment) {
    let Some(path) = &config.stats_file else {
        return;
    };
    let Some(file) = log_sink::open_to_append(path) else {
        log::warn!(
            "VMA_STATS_FILE: cannot open {} as a regular file: no statistics are written to it",
            path.display()
        );
        return;
    };
    let report = Report {
        file: OwnDescriptor::kept_by_child(file),
        open: segment.tell_of_end(write),
        is_over: AtomicBool::new(false),
    };
    REPORT.store(Box::into_raw(Box::new(report)), Ordering::Release);
}

/// The program exits: what is still open is written, too.
pub(crate) fn process_ends() {
    if let Some(report) = report()
        && !report.is_over.swap(true, Ordering::Relaxed)
    {
        report.open.tell();
    }
}

fn report() -> Option<&'static Report> {
    // SAFETY: null, or a report that is never freed.
    unsafe { REPORT.load(Ordering::Acquire).as_ref() }
}

/// In one piece, so that processes with one file do not mix their lines.
fn write(socket: &SocketStats) {
    let Some(report) = report() else {
        return;
    };
    let mut text = String::new();
    for line in socket.lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "VMA: {line}");
    }
    let fd = report.file.as_raw_fd();
    // SAFETY: the text is readable for its length. A full disk costs the report, and nothing else.
    let _ = unsafe { libc::syscall(libc::SYS_write, fd, text.as_ptr(), text.len()) };
}
