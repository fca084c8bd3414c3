//! Waiting for several sockets: select, poll and epoll of the C library, so that a preloaded
//! library sees the calls.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::select::{FdSet, select};
use nix::sys::time::{TimeVal, TimeValLike};

use crate::options::Multiplexer;

/// One of the calls, and what it keeps between two waits.
#[derive(Debug)]
pub enum Mux {
    /// `select(2)`
    Select,
    /// `poll(2)`
    Poll,
    /// `epoll(7)`, level-triggered
    Epoll {
        /// The set.
        set: Epoll,
        /// Room for what is ready.
        events: Vec<EpollEvent>,
    },
}

/// Descriptors from here on do not fit into a set of `select`.
const SELECT_LIMIT: i32 = 1024;
const EVENTS_MAX: usize = 256;

impl Mux {
    /// The call of the command line; `None` when sockets are waited for in the receive call, or by
    /// rings.
    pub fn new(kind: Multiplexer) -> io::Result<Option<Self>> {
        Ok(match kind {
            Multiplexer::Recvfrom | Multiplexer::SocketXtreme => None,
            Multiplexer::Select => Some(Self::Select),
            Multiplexer::Poll => Some(Self::Poll),
            Multiplexer::Epoll => Some(Self::Epoll {
                set: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
                events: vec![EpollEvent::empty(); EVENTS_MAX],
            }),
        })
    }

    /// Adds a socket under a number.
    pub fn add(&mut self, socket: impl AsFd, number: usize) -> io::Result<()> {
        match self {
            Self::Select if socket.as_fd().as_raw_fd() >= SELECT_LIMIT => Err(io::Error::other(
                "select() takes descriptors below 1024 only; use -F epoll",
            )),
            Self::Select | Self::Poll => Ok(()),
            Self::Epoll { set, .. } => {
                let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLPRI;
                Ok(set.add(socket, EpollEvent::new(flags, number as u64))?)
            }
        }
    }

    /// Takes a socket out.
    pub fn remove(&mut self, socket: impl AsFd) -> io::Result<()> {
        match self {
            Self::Select | Self::Poll => Ok(()),
            Self::Epoll { set, .. } => Ok(set.delete(socket)?),
        }
    }

    /// Waits up to `msec` (-1 is without limit) and puts the numbers of the ready ones of `sockets`
    /// into `ready`. None is ready when the time is over or a signal arrived.
    pub fn wait<'fd>(
        &mut self,
        sockets: impl Iterator<Item = (usize, BorrowedFd<'fd>)> + Clone,
        msec: i32,
        ready: &mut Vec<usize>,
    ) -> io::Result<()> {
        ready.clear();
        let result = match self {
            Self::Select => wait_select(sockets, msec, ready),
            Self::Poll => wait_poll(sockets, msec, ready),
            Self::Epoll { set, events } => {
                let timeout = EpollTimeout::try_from(msec).unwrap_or(EpollTimeout::NONE);
                set.wait(events, timeout).map(|count| {
                    let numbers = events.iter().take(count).map(EpollEvent::data);
                    ready.extend(numbers.filter_map(|number| usize::try_from(number).ok()));
                })
            }
        };
        match result {
            Ok(()) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn wait_select<'fd>(
    sockets: impl Iterator<Item = (usize, BorrowedFd<'fd>)> + Clone,
    msec: i32,
    ready: &mut Vec<usize>,
) -> Result<(), Errno> {
    let mut readable = FdSet::new();
    for (_, socket) in sockets.clone() {
        readable.insert(socket);
    }
    let mut timeout = (msec >= 0).then(|| TimeVal::milliseconds(i64::from(msec)));
    select(None, &mut readable, None, None, timeout.as_mut())?;
    let are_ready = sockets.filter(|(_, socket)| readable.contains(*socket));
    ready.extend(are_ready.map(|(number, _)| number));
    Ok(())
}

fn wait_poll<'fd>(
    sockets: impl Iterator<Item = (usize, BorrowedFd<'fd>)> + Clone,
    msec: i32,
    ready: &mut Vec<usize>,
) -> Result<(), Errno> {
    let wanted = PollFlags::POLLIN | PollFlags::POLLPRI;
    let mut descriptors: Vec<PollFd<'_>> = sockets
        .clone()
        .map(|(_, socket)| PollFd::new(socket, wanted))
        .collect();
    poll(
        &mut descriptors,
        PollTimeout::try_from(msec).unwrap_or(PollTimeout::NONE),
    )?;
    let are_ready = sockets
        .zip(&descriptors)
        .filter(|(_, descriptor)| descriptor.any().unwrap_or(true));
    ready.extend(are_ready.map(|((number, _), _)| number));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

    use super::*;

    #[test]
    fn every_call_tells_which_socket_is_ready() {
        for kind in [Multiplexer::Select, Multiplexer::Poll, Multiplexer::Epoll] {
            let mut mux = Mux::new(kind).unwrap().unwrap();
            let sockets: Vec<UdpSocket> = (0..3)
                .map(|_| UdpSocket::bind("127.0.0.1:0").unwrap())
                .collect();
            for (number, socket) in sockets.iter().enumerate() {
                mux.add(socket, number).unwrap();
            }
            let all = || sockets.iter().map(AsFd::as_fd).enumerate();
            let mut ready = vec![9];
            let start = Instant::now();
            mux.wait(all(), 20, &mut ready).unwrap();
            assert!(start.elapsed().as_millis() >= 19, "{kind:?}");
            assert_eq!(ready, [0; 0], "{kind:?}");
            let address = sockets[1].local_addr().unwrap();
            sockets[0].send_to(b"x", address).unwrap();
            for timeout in [-1, 0, 1000] {
                mux.wait(all(), timeout, &mut ready).unwrap();
                assert_eq!(ready, [1], "{kind:?}");
            }
            mux.remove(&sockets[1]).unwrap();
        }
        assert!(Mux::new(Multiplexer::Recvfrom).unwrap().is_none());
    }
}
