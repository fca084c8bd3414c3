//! Requests to a process that publishes statistics: zero them, another log level, a dump of a
//! socket, its packets.
//!
//! They go over a Unix datagram socket beside the segment, `<dir>/vmastat.<pid>.control`, never
//! through the segment itself, which readers map without the right to change anything. The kernel
//! tells the process who asks: the same user or root is answered, everybody else is refused.

use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use crate::mapping::sys;
use crate::names::segment_path;
use crate::reader::SegmentFile;

/// What a process is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// All counters begin anew.
    Zero,
    /// Another `VMA_TRACELEVEL`, by name or number.
    LogLevel(String),
    /// Another `VMA_LOG_DETAILS`, 0 to 3.
    LogDetails(u8),
    /// The statistics of a socket, or of all of them (`fd` is 0), into the log, at a level.
    Dump { fd: i32, level: Option<String> },
    /// So many octets of each packet that passes by the kernel, for some seconds. The answer is
    /// where they are found in the segment's file.
    Capture { snap: u32 },
}

impl fmt::Display for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => write!(formatter, "zero"),
            Self::LogLevel(level) => write!(formatter, "log_level {level}"),
            Self::LogDetails(details) => write!(formatter, "log_details {details}"),
            Self::Dump { fd, level: None } => write!(formatter, "dump {fd}"),
            Self::Dump {
                fd,
                level: Some(level),
            } => write!(formatter, "dump {fd} {level}"),
            Self::Capture { snap } => write!(formatter, "capture {snap}"),
        }
    }
}

impl FromStr for Request {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split_ascii_whitespace();
        let request = match (words.next(), words.next(), words.next()) {
            (Some("zero"), None, None) => Self::Zero,
            (Some("log_level"), Some(level), None) => Self::LogLevel(level.to_owned()),
            (Some("log_details"), Some(details), None) => {
                Self::LogDetails(details.parse().map_err(drop)?)
            }
            (Some("dump"), Some(fd), level) => Self::Dump {
                fd: fd.parse().map_err(drop)?,
                level: level.map(str::to_owned),
            },
            (Some("capture"), Some(snap), None) => Self::Capture {
                snap: snap.parse().map_err(drop)?,
            },
            _ => return Err(()),
        };
        words.next().is_none().then_some(request).ok_or(())
    }
}

/// Longest request and answer, bytes.
const MESSAGE_BYTES_MAX: usize = 256;
/// How long an answer is waited for: the process answers from a thread of its own.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// What an answer begins with if the request was carried out.
const DONE: &str = "ok";

/// The process's end. Its descriptor, owned by an `F`, becomes readable when somebody asks.
#[derive(Debug)]
pub struct ControlSocket<F> {
    fd: F,
    user: u32,
}

impl<F: AsFd> ControlSocket<F> {
    /// Makes the socket at `path`, whose descriptor `own` takes.
    pub(crate) fn create(path: &CStr, own: impl FnOnce(OwnedFd) -> F) -> io::Result<Self> {
        // Left behind by an earlier process with this id.
        let _ = sys::unlink(path);
        Ok(Self {
            fd: sys::control_socket(path, own)?,
            user: sys::effective_user(),
        })
    }

    /// To wait for requests with.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_fd().as_raw_fd()
    }

    /// Answers everybody who has asked so far; `carry_out` says what is to be known, if anything
    /// is, or what went wrong. Does not wait.
    pub fn answer(&self, mut carry_out: impl FnMut(&Request) -> Result<String, String>) {
        let mut buffer = [0; MESSAGE_BYTES_MAX];
        for _ in 0..REQUESTS_AT_ONCE {
            let Ok(message) = sys::receive_with_credentials(self.fd.as_fd(), &mut buffer) else {
                return;
            };
            let may = message
                .credentials
                .is_some_and(|sender| sender.user == 0 || sender.user == self.user);
            let text = std::str::from_utf8(message.bytes).unwrap_or_default();
            let answer = match text.parse::<Request>() {
                _ if !may => "denied: only the process's user and root may ask".to_owned(),
                Err(()) => {
                    "unknown: this version of the library does not know the request".to_owned()
                }
                Ok(request) => match carry_out(&request) {
                    Ok(told) if told.is_empty() => DONE.to_owned(),
                    Ok(told) => format!("{DONE} {told}"),
                    Err(why) => format!("refused: {why}"),
                },
            };
            let len = answer.len().min(MESSAGE_BYTES_MAX);
            // Whoever has gone gets no answer.
            let _ = sys::send_to(
                self.fd.as_fd(),
                answer.as_bytes().get(..len).unwrap_or_default(),
                &message.from,
            );
        }
    }
}

/// The internal thread has other things to do.
const REQUESTS_AT_ONCE: usize = 16;

/// Why a request was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    #[error(
        "process {pid} takes no requests: it has no accelerated socket yet, or its library is an older one"
    )]
    NotThere { pid: u32 },
    #[error("process {pid} does not answer")]
    NoAnswer { pid: u32 },
    #[error("{0}")]
    Refused(String),
    #[error("cannot ask process {pid}: {source}")]
    System { pid: u32, source: io::Error },
}

/// Asks the process that publishes `<dir>/vmastat.<pid>`, and waits until it has done what is
/// asked. Returns what there is to be known then.
///
/// # Errors
/// It does not answer, or says why it will not.
pub fn ask(dir: &Path, pid: u32, request: &Request) -> Result<String, ControlError> {
    let system = |source| ControlError::System { pid, source };
    let found = SegmentFile::open(dir, pid).map(|file| file.path().to_owned());
    let path = parallel(&found.unwrap_or_else(|_| segment_path(dir, pid)));
    // Named, so that there is somewhere to answer to; the name is free again when it is dropped.
    let own = AnswerPath(dir.join(format!(".vma_stats.{}", std::process::id())));
    let _ = std::fs::remove_file(&own.0);
    let socket = UnixDatagram::bind(&own.0).map_err(system)?;
    socket.set_read_timeout(Some(ANSWER_TIME)).map_err(system)?;
    match socket.send_to(request.to_string().as_bytes(), &path) {
        Ok(_) => {}
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            return Err(ControlError::NotThere { pid });
        }
        Err(error) => return Err(system(error)),
    }
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let len = match socket.recv(&mut buffer) {
        Ok(len) => len,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            return Err(ControlError::NoAnswer { pid });
        }
        Err(error) => return Err(system(error)),
    };
    let answer = String::from_utf8_lossy(buffer.get(..len).unwrap_or_default());
    if let Some(told) = answer.strip_prefix(DONE)
        && (told.is_empty() || told.starts_with(' '))
    {
        return Ok(told.trim_start().to_owned());
    }
    let answer = answer.replace(char::is_control, "?");
    let words = answer
        .split_once(": ")
        .map_or(answer.as_str(), |(_, why)| why);
    Err(ControlError::Refused(words.to_owned()))
}

/// A file that goes away with the value.
struct AnswerPath(PathBuf);

impl Drop for AnswerPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Beside the segment.
pub(crate) fn control_path(segment: &CStr) -> Option<CString> {
    CString::new([segment.to_bytes(), SUFFIX.as_bytes()].concat()).ok()
}

/// What follows the name of the segment.
const SUFFIX: &str = ".control";

fn parallel(segment: &Path) -> PathBuf {
    let mut path = segment.as_os_str().to_owned();
    path.push(SUFFIX);
    PathBuf::from(path)
}

/// Removes the control socket of a process that is gone, whose segment this was.
pub fn remove_stale_control(segment: &Path) {
    let _ = std::fs::remove_file(parallel(segment));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_back() {
        for request in [
            Request::Zero,
            Request::LogLevel("debug".to_owned()),
            Request::LogDetails(3),
            Request::Dump { fd: 0, level: None },
            Request::Dump {
                fd: 17,
                level: Some("info".to_owned()),
            },
            Request::Capture { snap: 96 },
        ] {
            assert_eq!(request.to_string().parse(), Ok(request));
        }
        for other in [
            "",
            "zero x",
            "log_details 300",
            "dump",
            "dump x",
            "dump 1 2 3",
            "capture",
            "capture -1",
        ] {
            assert!(other.parse::<Request>().is_err(), "{other}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "raw system calls")]
    fn requests_of_the_same_user_are_carried_out() {
        let dir = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let error = ask(dir.path(), pid, &Request::Zero).unwrap_err();
        assert!(matches!(error, ControlError::NotThere { .. }), "{error}");
        let name = parallel(&segment_path(dir.path(), pid));
        let name = CString::new(name.to_str().unwrap()).unwrap();
        let control = ControlSocket::create(&name, |fd| fd).unwrap();
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let mut asked = Vec::new();
                while asked.len() < 3 {
                    control.answer(|request| {
                        asked.push(request.clone());
                        match request {
                            Request::Zero => Ok(String::new()),
                            Request::Capture { snap } => Ok(format!("at {snap}")),
                            _ => Err("no such level".to_owned()),
                        }
                    });
                    std::thread::sleep(Duration::from_millis(1));
                }
                asked
            });
            assert_eq!(ask(dir.path(), pid, &Request::Zero).unwrap(), "");
            let capture = Request::Capture { snap: 7 };
            assert_eq!(ask(dir.path(), pid, &capture).unwrap(), "at 7");
            let level = Request::LogLevel("loud".to_owned());
            let error = ask(dir.path(), pid, &level).unwrap_err();
            assert_eq!(error.to_string(), "no such level");
            assert_eq!(server.join().unwrap(), [Request::Zero, capture, level]);
        });
        sys::unlink(&name).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
