//! A process's side of its connection to the broker.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use descriptors::{OwnDescriptor, own};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with,
    sockopt,
};

use super::area::Area;
use super::message::{BYTES_MAX, Request};
use crate::fds;

/// How long the broker may take: it answers in microseconds, and opens an interface in some ten
/// milliseconds unless others hold the kernel up.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection. What is asked for through it ends with it.
#[derive(Debug)]
pub(crate) struct Membership {
    socket: OwnDescriptor,
    /// One question at a time.
    turn: Mutex<()>,
    /// There is nobody to answer any more.
    is_over: AtomicBool,
    /// In a forked child its descriptor is somebody else's.
    forks: u32,
    /// Where the broker says that it is about to end.
    area: Option<Arc<Area>>,
}

impl Membership {
    /// Connects to the broker that listens there.
    pub(crate) fn connect(path: &Path) -> io::Result<Self> {
        let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(unix, kind, SocketFlags::CLOEXEC, None)?;
        let socket = OwnDescriptor::new(socket);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
        // A name of Linux's own begins with a zero, which tests use.
        let address = match path.as_os_str().as_bytes() {
            [b'@', name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
            _ => SocketAddrUnix::new(path)?,
        };
        connect(&socket, &address)?;
        Ok(Self {
            socket,
            turn: Mutex::new(()),
            is_over: AtomicBool::new(false),
            forks: own::forks(),
            area: None,
        })
    }

    /// Whether this process has connected, and not one that it was forked from.
    pub(super) fn is_this_process_s(&self) -> bool {
        self.forks == own::forks()
    }

    /// Before anything was said: whether the broker still waits for that.
    pub(super) fn is_waited_for(&self) -> bool {
        let mut nothing = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(&self.socket, &mut nothing, flags) == Err(Errno::AGAIN)
    }

    /// What the broker has given.
    pub(super) fn keep_area(&mut self, area: Arc<Area>) {
        self.area = Some(area);
    }

    /// The memory is of no use any more, and this process keeps none of it.
    pub(crate) fn forget_area(&self) -> io::Result<()> {
        // It says no more that the broker ends.
        self.is_over.store(true, Ordering::Relaxed);
        self.area.as_ref().map_or(Ok(()), |area| area.forget())
    }

    pub(super) fn socket(&self) -> &OwnDescriptor {
        &self.socket
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// The broker's, or `ENOTCONN` if there is none any more.
    pub(crate) fn ask(&self, request: Request) -> io::Result<()> {
        self.ask_with(&request.encode(), &[])
    }

    /// Has the broker set an option of a socket.
    pub(super) fn set_option(
        &self,
        socket: BorrowedFd<'_>,
        name: i32,
        value: &[u8],
    ) -> io::Result<()> {
        let too_long = || io::Error::from_raw_os_error(libc::E2BIG);
        let name = u8::try_from(name).map_err(|_| too_long())?;
        let question = [&Request::SetOption(name).encode(), value].concat();
        if question.len() > BYTES_MAX {
            return Err(too_long());
        }
        self.ask_with(&question, &[socket])
    }

    /// The same with a message of which an encoded request is the beginning.
    pub(crate) fn ask_with(&self, question: &[u8], along: &[BorrowedFd<'_>]) -> io::Result<()> {
        if !self.is_this_process_s() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_over.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let answer = self.exchange(question, along);
        match answer {
            Ok(0) => Ok(()),
            Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
            Err(error) => {
                // A late answer would be taken for that to the next question.
                self.is_over.store(true, Ordering::Relaxed);
                Err(error)
            }
        }
    }

    fn exchange(&self, question: &[u8], along: &[BorrowedFd<'_>]) -> io::Result<i32> {
        retry(|| fds::send(self.socket.as_fd(), question, along))?;
        let mut answer = [0; BYTES_MAX];
        match retry(|| fds::receive(self.socket.as_fd(), &mut answer))? {
            (4, _) => Ok(i32::from_ne_bytes([
                answer[0], answer[1], answer[2], answer[3],
            ])),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether the broker has ended, or is about to: then it still answers for a while. Costs a
    /// system call.
    pub(crate) fn is_over(&self) -> bool {
        if self.area.as_ref().is_some_and(|area| area.is_ending()) {
            return true;
        }
        if !self.is_over.load(Ordering::Relaxed) {
            // One who asks has the socket for as long, and finds out itself.
            let Ok(_turn) = self.turn.try_lock() else {
                return false;
            };
            let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            let has_ended = match recv(&self.socket, &mut [0_u8; 1][..], flags) {
                Ok((0, _)) => true,
                Err(Errno::AGAIN | Errno::INTR) => false,
                Ok(_) => false,
                Err(_) => true,
            };
            self.is_over.fetch_or(has_ended, Ordering::Relaxed);
        }
        self.is_over.load(Ordering::Relaxed)
    }
}

/// A signal of the program's does not end the wait.
pub(super) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
