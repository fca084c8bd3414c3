//! Where log lines go: standard error or `VMA_LOG_FILE`, one `write(2)` a line.

use std::ffi::CString;
use std::fmt::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::time::Instant;

use config::{Config, LogLevel, LogLine};
use libc::c_int;

/// Longest line that is written; longer ones are cut, as the original does.
const LINE_BYTES_MAX: usize = 512;

#[derive(Debug)]
struct Sink {
    fd: c_int,
    level: LogLevel,
    details: u8,
    color: bool,
    started: Instant,
}

static SINK: OnceLock<Sink> = OnceLock::new();

/// Starts the log. A file that cannot be opened is said on standard error, where the log then goes.
pub(crate) fn start(config: &Config) {
    let file = config
        .log_file
        .as_ref()
        .map(|path| (path, open(path.as_os_str().as_bytes())));
    let fd = match file {
        Some((_, Some(fd))) => fd,
        _ => libc::STDERR_FILENO,
    };
    let sink = Sink {
        fd,
        level: config.log_level,
        details: config.log_details,
        // SAFETY: isatty touches no memory.
        color: config.log_colors && unsafe { libc::isatty(fd) } == 1,
        started: Instant::now(),
    };
    if SINK.set(sink).is_err() || log::set_logger(&Facade).is_err() {
        return;
    }
    log::set_max_level(facade_filter(config.log_level));
    if let Some((path, None)) = file {
        log::warn!(
            "VMA_LOG_FILE: cannot open {}: the log goes to standard error",
            path.display()
        );
    }
}

/// Writes a line if the configured level lets it through.
pub(crate) fn line(level: LogLevel, message: &str) {
    let Some(sink) = SINK.get().filter(|sink| level <= sink.level) else {
        return;
    };
    let mut buffer = Buffer {
        bytes: [0; LINE_BYTES_MAX],
        len: 0,
    };
    let line = LogLine {
        level,
        details: sink.details,
        pid: std::process::id(),
        // SAFETY: gettid has no preconditions.
        tid: unsafe { libc::syscall(libc::SYS_gettid) } as u32,
        elapsed: sink.started.elapsed(),
        color: sink.color,
        message,
    };
    if write!(buffer, "{line}").is_err() {
        // Cut, with its end of line.
        buffer.bytes[LINE_BYTES_MAX - 1] = b'\n';
        buffer.len = LINE_BYTES_MAX;
    }
    // SAFETY: the first `len` bytes of the buffer are readable. A lost log line is not worth an error.
    unsafe { libc::syscall(libc::SYS_write, sink.fd, buffer.bytes.as_ptr(), buffer.len) };
}

fn open(path: &[u8]) -> Option<c_int> {
    let path = CString::new(path).ok()?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: the path ends with a null byte.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_openat,
            libc::AT_FDCWD,
            path.as_ptr(),
            flags,
            0o644,
        )
    };
    if fd < 0 {
        return None;
    }
    // SAFETY: fcntl with an integer argument.
    let high = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, 1000) };
    if high < 0 {
        return Some(fd as c_int);
    }
    // SAFETY: the descriptor is ours.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    engine::own_descriptors::add_kept_by_child(high as c_int);
    Some(high as c_int)
}

struct Buffer {
    bytes: [u8; LINE_BYTES_MAX],
    len: usize,
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.len..];
        let fits = text.len().min(room.len());
        room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        if fits == text.len() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
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
            Some(text) => line(level, text),
            None => line(level, &record.args().to_string()),
        }
    }

    fn flush(&self) {}
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
