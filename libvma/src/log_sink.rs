//! Where log lines go: standard error or `VMA_LOG_FILE`, one `write(2)` a line.
//!
//! Writing a line allocates nothing and takes no lock, so a signal handler may do it.

mod callback;
mod stderr;

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::time::Instant;

use descriptors::OwnDescriptor;
use engine::LogControls;
use libc::c_int;
use vma_config::{Config, LogLevel, LogLine};

pub(crate) use stderr::adopt as standard_error_is_for_the_log;

/// Longest line that is written; longer ones are cut, as the original does.
const LINE_BYTES_MAX: usize = 512;

#[derive(Debug)]
struct Sink {
    /// `None`: standard error.
    file: Option<OwnDescriptor>,
    path: Option<PathBuf>,
    /// A [`LogLevel`]'s number: `vma_stats -l` changes it.
    level: AtomicI32,
    /// `vma_stats -D` changes it.
    details: AtomicU8,
    colors: bool,
}

static SINK: OnceLock<Sink> = OnceLock::new();
/// The log before its configuration is known.
static EARLY: Sink = Sink {
    file: None,
    path: None,
    level: AtomicI32::new(LogLevel::Info.number()),
    details: AtomicU8::new(0),
    colors: false,
};
static PROCESS_START: OnceLock<Instant> = OnceLock::new();

/// Takes note of what the log needs to know of the process's beginning: the time, and what standard
/// error is.
pub(crate) fn process_starts() {
    PROCESS_START.get_or_init(Instant::now);
    stderr::process_starts();
}

/// Starts the log. A file that cannot be opened is said on standard error, where the log then goes.
pub(crate) fn start(config: &Config) {
    callback::look();
    let path = config.log_file.as_deref();
    let file = path.and_then(open).map(OwnDescriptor::kept_by_child);
    let sink = Sink {
        path: path.map(Path::to_owned),
        level: AtomicI32::new(config.log_level.number()),
        details: AtomicU8::new(config.log_details),
        // Nobody looks at a file's colours, even if the file is a terminal's.
        colors: config.log_colors && file.is_none(),
        file,
    };
    let has_file = sink.file.is_some();
    if SINK.set(sink).is_err() || log::set_logger(&Facade).is_err() {
        return;
    }
    log::set_max_level(facade_filter(config.log_level));
    if let Some(path) = path.filter(|_| !has_file) {
        log::warn!(
            "VMA_LOG_FILE: cannot open {} as a regular file: the log goes to standard error",
            path.display()
        );
    }
}

/// In a forked child: its log goes on in a file of its own, if the name says so (`%d` is the
/// process id).
pub(crate) fn continue_in_child(config: &Config) {
    let Some(sink) = SINK.get().filter(|sink| sink.path != config.log_file) else {
        return;
    };
    let file = config.log_file.as_deref().and_then(open);
    if let (Some(known), Some(file)) = (&sink.file, file) {
        known.become_copy_of(&OwnDescriptor::new(file));
    }
}

/// What `vma_stats` may change.
pub(crate) const CONTROLS: LogControls = LogControls {
    set_level,
    set_details: |details| {
        if let Some(sink) = SINK.get() {
            sink.details.store(details.min(3), Ordering::Relaxed);
        }
    },
    line: |level, text| {
        let level = level.map_or(Ok(LogLevel::Info), level_of)?;
        line(level, text);
        Ok(())
    },
};

fn set_level(name: &str) -> Result<(), String> {
    let level = level_of(name)?;
    if let Some(sink) = SINK.get() {
        sink.level.store(level.number(), Ordering::Relaxed);
    }
    log::set_max_level(facade_filter(level));
    Ok(())
}

fn level_of(name: &str) -> Result<LogLevel, String> {
    LogLevel::from_name(name).ok_or_else(|| format!("Invalid log level val: {name}"))
}

/// Writes a line if the configured level lets it through.
pub(crate) fn line(level: LogLevel, message: &str) {
    if let Some(sink) = SINK.get() {
        sink.line(level, message, true);
    }
}

/// The same, also if the log has not been started, and not to a function of the program's.
/// Async-signal-safe.
pub(crate) fn line_before_start(level: LogLevel, message: &str) {
    SINK.get().unwrap_or(&EARLY).line(level, message, false);
}

impl Sink {
    fn line(&self, level: LogLevel, message: &str, may_call: bool) {
        let calls = may_call && callback::is_there();
        if level.number() > self.level.load(Ordering::Relaxed)
            || !calls && self.file.is_none() && !stderr::is_for_the_log()
        {
            return;
        }
        // The last one stays a null byte.
        let mut buffer = [0; LINE_BYTES_MAX + 1];
        let line = LogLine {
            level,
            details: self.details.load(Ordering::Relaxed),
            pid: std::process::id(),
            // SAFETY: gettid has no preconditions.
            tid: unsafe { libc::syscall(libc::SYS_gettid) } as u32,
            elapsed: PROCESS_START
                .get()
                .map(Instant::elapsed)
                .unwrap_or_default(),
            color: self.colors && !calls && stderr::is_terminal(),
            message,
        };
        let len = line.encode(&mut buffer[..LINE_BYTES_MAX]);
        if calls && callback::take(level.number(), &buffer[..=len]) {
            return;
        }
        let line = &buffer[..len];
        let Some(file) = &self.file else {
            return stderr::write(line);
        };
        // A lost log line is not worth an error.
        // SAFETY: the line is readable for its length.
        unsafe { libc::syscall(libc::SYS_write, file.as_raw_fd(), line.as_ptr(), len) };
    }
}

/// Opens a log file: a regular one, whose name is no link, so that writing never waits and nothing
/// else is harmed. It is emptied unless another process writes to it.
fn open(path: &Path) -> Option<OwnedFd> {
    let owned = open_to_append(path)?;
    let fd = owned.as_raw_fd();
    let lock = |kind: c_int| {
        // SAFETY: integers.
        unsafe { libc::syscall(libc::SYS_flock, fd, kind | libc::LOCK_NB) == 0 }
    };
    // Every process that writes to the file has it locked, with all others.
    if lock(libc::LOCK_EX) {
        // SAFETY: integers.
        unsafe { libc::syscall(libc::SYS_ftruncate, fd, 0) };
    }
    lock(libc::LOCK_SH);
    Some(owned)
}

/// Opens, or makes, a regular file to append to.
pub(crate) fn open_to_append(path: &Path) -> Option<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    let caution = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    // SAFETY: the path ends with a null byte.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags | caution,
            0o644,
        )
    } as c_int;
    if fd < 0 {
        return None;
    }
    // SAFETY: the kernel has just made it. Dropping it comes to our own hook of close(2), which
    // leaves it to the kernel.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all-zero is a value of this struct of integers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one `struct stat`.
    let known = unsafe { libc::syscall(libc::SYS_fstat, fd, &raw mut status) } == 0;
    if !known || status.st_mode & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    Some(owned)
}

/// The `log` crate's side of the sink.
struct Facade;

impl log::Log for Facade {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        let level = match record.level() {
            log::Level::Error => LogLevel::Error,
            log::Level::Warn => LogLevel::Warning,
            log::Level::Info => LogLevel::Info,
            log::Level::Debug => LogLevel::Debug,
            log::Level::Trace => LogLevel::Fine,
        };
        match record.args().as_str() {
            Some(text) => lines(level, text),
            None => lines(level, &record.args().to_string()),
        }
    }

    fn flush(&self) {}
}

/// Each line of a message becomes one of the log.
fn lines(level: LogLevel, message: &str) {
    message.lines().for_each(|text| line(level, text));
}

fn facade_filter(level: LogLevel) -> log::LevelFilter {
    match level {
        LogLevel::None | LogLevel::Panic => log::LevelFilter::Off,
        LogLevel::Error => log::LevelFilter::Error,
        LogLevel::Warning => log::LevelFilter::Warn,
        LogLevel::Info | LogLevel::Details => log::LevelFilter::Info,
        LogLevel::Debug => log::LevelFilter::Debug,
        LogLevel::Fine | LogLevel::Finer | LogLevel::All => log::LevelFilter::Trace,
    }
}
