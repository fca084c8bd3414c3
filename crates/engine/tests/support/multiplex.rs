//! `poll(2)` and `epoll(7)` as the C ABI makes them.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use dev_core::Backend;
use engine::{Engine, Errno, MuxCall, MuxOutcome, Object};
use libc::{c_int, c_short};

use super::calls::{last_errno, sleep_until_woken};
use super::device::Device;
use super::host::{Host, Socket};
use super::{FIRST_LINK, OUR_IP, PEER};

/// Readable, in either interface.
pub const IN: c_short = libc::POLLIN;
pub const OUT: c_short = libc::POLLOUT;

/// What to wait for.
pub fn polled(fd: RawFd, events: c_short) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0x7777,
    }
}

/// A whole `poll(2)`.
pub fn poll<B: Backend>(
    engine: &'static Engine<B>,
    fds: &mut [libc::pollfd],
    timeout_msec: c_int,
) -> Result<usize, Errno> {
    let Some(sockets) = engine.polled_sockets(fds) else {
        // SAFETY: the descriptors are valid for the call.
        let count =
            unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_msec) };
        return usize::try_from(count).map_err(|_| last_errno());
    };
    let mut call = MuxCall::begin(engine.settings(), nsec(timeout_msec), true);
    finish(&mut call, |call| engine.poll(call, fds, &sockets))
}

fn nsec(timeout_msec: c_int) -> Option<u64> {
    u64::try_from(timeout_msec)
        .ok()
        .map(|msec| msec * 1_000_000)
}

/// Runs a waiting call to its end.
pub fn finish(
    call: &mut MuxCall,
    mut attempt: impl FnMut(&mut MuxCall) -> MuxOutcome,
) -> Result<usize, Errno> {
    loop {
        match attempt(call) {
            MuxOutcome::Done(count) => return Ok(count),
            MuxOutcome::Fail(errno) => return Err(errno),
            MuxOutcome::Again => std::thread::yield_now(),
            MuxOutcome::Sleep(sleep) => {
                sleep_until_woken(sleep);
            }
        }
    }
}

/// An epoll descriptor. Dropping it closes it in the order of the hook of `close(2)`.
pub struct Epoll<B: Backend> {
    pub engine: &'static Engine<B>,
    fd: Option<OwnedFd>,
}

/// An event: what happened, and the data of the registration.
pub type Event = (u32, u64);

impl<B: Backend> Epoll<B> {
    pub fn new(engine: &'static Engine<B>) -> Self {
        // SAFETY: epoll_create1 takes an integer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(fd >= 0, "{:?}", last_errno());
        Self {
            engine,
            // SAFETY: the descriptor is new and ours alone.
            fd: Some(unsafe { OwnedFd::from_raw_fd(fd) }),
        }
    }

    pub fn fd(&self) -> RawFd {
        self.fd.as_ref().unwrap().as_raw_fd()
    }

    /// `epoll_ctl(2)` with the hook's part. `data` is the descriptor itself.
    pub fn add(&self, fd: RawFd, events: c_int) {
        self.control(libc::EPOLL_CTL_ADD, fd, events, fd as u64);
    }

    pub fn modify(&self, fd: RawFd, events: c_int) {
        self.control(libc::EPOLL_CTL_MOD, fd, events, fd as u64);
    }

    pub fn remove(&self, fd: RawFd) {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    pub fn control(&self, operation: c_int, fd: RawFd, events: c_int, data: u64) {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: data,
        };
        // SAFETY: the event is readable.
        let result = unsafe { libc::epoll_ctl(self.fd(), operation, fd, &raw mut event) };
        assert_eq!(result, 0, "{:?}", last_errno());
        self.engine
            .epoll_changed(self.fd(), operation, fd, Some(event));
    }

    /// `dup(2)`
    pub fn dup(&self) -> Self {
        let copy = self.fd.as_ref().unwrap().try_clone().unwrap();
        self.engine
            .descriptor_duplicated(self.fd(), copy.as_raw_fd());
        Self {
            engine: self.engine,
            fd: Some(copy),
        }
    }

    /// A whole `epoll_wait(2)`.
    pub fn wait(&self, max: usize, timeout_msec: c_int) -> Result<Vec<Event>, Errno> {
        let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; max];
        let count = match self.engine.look_up(self.fd()) {
            Some(Object::Epoll(set)) => {
                let mut call = MuxCall::begin(self.engine.settings(), nsec(timeout_msec), true);
                finish(&mut call, |call| {
                    self.engine.epoll_wait(set, call, &mut events)
                })?
            }
            _ => self.wait_in_kernel(&mut events, timeout_msec)?,
        };
        Ok(events[..count]
            .iter()
            .map(|event| (event.events, event.u64))
            .collect())
    }

    fn wait_in_kernel(
        &self,
        events: &mut [libc::epoll_event],
        timeout_msec: c_int,
    ) -> Result<usize, Errno> {
        let max = events.len() as c_int;
        // SAFETY: the events are writable for their number.
        let count = unsafe { libc::epoll_wait(self.fd(), events.as_mut_ptr(), max, timeout_msec) };
        usize::try_from(count).map_err(|_| last_errno())
    }

    /// The descriptors that are ready right now, in order.
    pub fn ready(&self) -> Vec<RawFd> {
        let mut ready: Vec<_> = self
            .wait(64, 0)
            .unwrap()
            .iter()
            .map(|(_, data)| *data as RawFd)
            .collect();
        ready.sort_unstable();
        ready
    }
}

impl<B: Backend> Drop for Epoll<B> {
    fn drop(&mut self) {
        self.engine.descriptor_closes(self.fd());
    }
}

/// A datagram arrives and is taken from the ring.
pub fn deliver(host: &Host<Device>, socket: &Socket<Device>) {
    host.arrives(PEER, socket.at(OUR_IP), b"x");
    while host.device.wire(FIRST_LINK).waiting() > 0 {
        socket.ours().next_len_after_poll();
    }
}

/// A pipe: the reading and the writing end.
pub fn pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    std::io::pipe().unwrap()
}
