//! A thread that attaches programs to interfaces. The kernel keeps the lowest free number for the
//! link's descriptor while it does, which waits for an RCU grace period, some 10 ms: a descriptor
//! that the program opens meanwhile would have the next number. The thread has a table of
//! descriptors of its own, and sends what it has made.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};

use descriptors::{OwnDescriptor, room_for_closed};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::bpf::link::{AttachError, AttachMode, XdpLink};
use crate::bpf::program::Program;
use crate::fds;

/// The way to the thread, once there is one.
#[derive(Debug, Default)]
pub(crate) struct Attacher {
    thread: Mutex<Option<Thread>>,
}

#[derive(Debug)]
struct Thread {
    number: libc::pid_t,
    socket: OwnDescriptor,
}

/// With a limit on descriptors below 128 there is room for fewer.
const CLOSED_MIN: usize = 8;

/// Bytes of a request: the interface's index and the flags. Of an answer: an errno, or 0.
const REQUEST_BYTES: usize = 8;
const ANSWER_BYTES: usize = 4;

impl Attacher {
    /// Attaches a program to the interface with this index, in the network namespace in which the
    /// first one was attached, and calls `meanwhile`.
    pub(crate) fn attach(
        &self,
        program: &Program,
        ifindex: u32,
        mode: AttachMode,
        meanwhile: impl FnOnce(),
    ) -> Result<XdpLink, AttachError> {
        let mut known = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        // One more descriptor is much where there are few.
        if known.is_none() && room_for_closed() >= CLOSED_MIN {
            *known = start();
        }
        let socket = known.as_ref().map(|thread| thread.socket.as_fd());
        let asked = socket.filter(|socket| {
            let request = [ifindex.to_ne_bytes(), mode.flags().to_ne_bytes()].concat();
            fds::send(*socket, &request, &[program.as_fd()]).is_ok()
        });
        meanwhile();
        let mut answer = [0; ANSWER_BYTES];
        let answered = asked.map(|socket| receive_one(socket, &mut answer));
        let made = match (answered, i32::from_ne_bytes(answer)) {
            (Some(Ok((ANSWER_BYTES, Some(link)))), _) => Ok(OwnDescriptor::new(link)),
            (Some(Ok((ANSWER_BYTES, None))), errno) if errno != 0 => {
                Err(io::Error::from_raw_os_error(errno))
            }
            // There is no such thread.
            _ => {
                *known = None;
                return XdpLink::attach(program, ifindex, mode);
            }
        };
        XdpLink::made(made, mode)
    }

    /// How many threads there are. While one is at work nobody else is told.
    pub(crate) fn threads(&self) -> u32 {
        self.thread
            .try_lock()
            .map_or(0, |it| u32::from(it.is_some()))
    }

    /// Has the thread end. Returns its number, if there is one.
    pub(crate) fn end(&self) -> Option<libc::pid_t> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        thread.take().map(|thread| thread.number)
    }
}

/// The thread, and the way to it.
fn start() -> Option<Thread> {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (here, there) = socketpair(unix, kind, SocketFlags::CLOEXEC, None).ok()?;
    let (here, there) = (OwnDescriptor::new(here), OwnDescriptor::new(there));
    let number = there.as_raw_fd();
    let (tell, told) = mpsc::channel();
    dev_core::spawn("vma-attach", move || {
        let has_left = leave_table(number);
        // SAFETY: gettid has no preconditions.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
        let _ = tell.send(has_left.then_some(thread));
        if has_left {
            // SAFETY: it is open in the thread's table for as long as the thread lives.
            serve(unsafe { BorrowedFd::borrow_raw(number) });
        }
    });
    // Then the thread has its own copy of what ends here.
    let number = told.recv().ok().flatten()?;
    Some(Thread {
        number,
        socket: here,
    })
}

/// Gives the thread a table of descriptors of its own, in which there is one only. `false`: that is
/// not to be had.
fn leave_table(kept: i32) -> bool {
    let kept = kept.cast_unsigned();
    let close = |first: u32, last: u32, flags: libc::c_uint| {
        // SAFETY: integers. The first call leaves the table, and the thread uses no descriptor but
        // this from then on.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) == 0 }
    };
    close(kept + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE) && (kept == 0 || close(0, kept - 1, 0))
}

/// The thread.
fn serve(socket: BorrowedFd<'_>) {
    let mut request = [0; REQUEST_BYTES];
    while let Ok((REQUEST_BYTES, Some(program))) = receive_one(socket, &mut request) {
        let [a, b, c, d, e, f, g, h] = request;
        let (ifindex, flags) = (
            u32::from_ne_bytes([a, b, c, d]),
            u32::from_ne_bytes([e, f, g, h]),
        );
        let made = XdpLink::make(program.as_fd(), ifindex, flags);
        let errno = made.as_ref().err().and_then(io::Error::raw_os_error);
        let link = made.as_ref().ok().map(AsFd::as_fd);
        if fds::send(socket, &errno.unwrap_or(0).to_ne_bytes(), link.as_slice()).is_err() {
            return;
        }
    }
}

/// How many bytes have come, and what has come along.
fn receive_one(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let (count, fds) = fds::receive(socket, bytes)?;
    Ok((count, fds.into_iter().next()))
}
