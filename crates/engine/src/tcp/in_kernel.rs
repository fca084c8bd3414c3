//! Calls on a connection that is the kernel's for a while: none of them waits in the kernel, and
//! each is made under the socket's lock, so that the connection can go over between two of them.

use links::reason::Reason;

use ::tcp::WriteError;
use libc::c_int;
use sys::{Errno, streams};

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::message::Message;
use crate::tcp::call::{StreamCall, StreamOutcome};
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// With these more than octets goes along.
pub(super) const BESIDE_OCTETS: c_int =
    libc::MSG_OOB | libc::MSG_EOR | libc::MSG_CONFIRM | libc::MSG_DONTROUTE;

/// What the kernel's socket has said.
pub(super) enum Answer {
    /// The connection is here: the call looks again.
    Here,
    /// The call is over.
    Over(StreamOutcome),
    /// The call waits, if it does.
    Nothing,
}

impl<S: TcpStack> TcpSocket<S> {
    /// What a call does first that finds no stream. `None`: the connection waits for its interface.
    fn settle_in_kernel(&'static self, host: &Host<S>, call: &mut StreamCall) -> Option<Answer> {
        Self::wait_for_hand_over(host);
        if !self.waits_as_stream() {
            return Some(match self.is_stream() {
                true => Answer::Here,
                false => Answer::Over(call.handed_over()),
            });
        }
        self.take_from_kernel(host).then_some(Answer::Here)
    }

    /// A call that only the kernel can make, as it may wait there: the connection stays with it.
    fn stay_in_kernel(&'static self, host: &Host<S>, call: &mut StreamCall) -> Answer {
        host.leave_to_kernel(self, Reason::Message);
        Answer::Over(call.handed_over())
    }

    /// One attempt at a receive call.
    #[cold]
    pub(super) fn receive_in_kernel(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Answer {
        if let Some(answer) = self.settle_in_kernel(host, call) {
            return answer;
        }
        let fd = self.fd();
        let is_whole = || {
            message
                .total_len()
                .is_ok_and(|len| len <= streams::readable_len(fd))
        };
        if flags & libc::MSG_WAITALL != 0 && call.blocking && !is_whole() {
            return self.stay_in_kernel(host, call);
        }
        let role = self.role.lock();
        if self.generation() != call.generation || !matches!(&*role, Role::None) {
            return Answer::Here;
        }
        // SAFETY: the header is the application's (contract of `Message`).
        let received = unsafe { sys::recvmsg(fd, message.header(), flags | libc::MSG_DONTWAIT) };
        drop(role);
        match received {
            Ok(len) => Answer::Over(StreamOutcome::Done(len)),
            Err(Errno(libc::EAGAIN)) if flags & libc::MSG_OOB == 0 => Answer::Nothing,
            Err(errno) => Answer::Over(StreamOutcome::Fail(errno)),
        }
    }

    /// One attempt at a send call of `len` octets.
    #[cold]
    pub(super) fn send_in_kernel(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        (message, len): (&Message<'_>, usize),
        flags: c_int,
    ) -> Answer {
        if let Some(answer) = self.settle_in_kernel(host, call) {
            return answer;
        }
        if flags & BESIDE_OCTETS != 0 {
            return self.stay_in_kernel(host, call);
        }
        let role = self.role.lock();
        if self.generation() != call.generation || !matches!(&*role, Role::None) {
            return Answer::Here;
        }
        let answer = self.send_by_kernel(call, (message, len), flags);
        drop(role);
        answer
    }

    /// Sends through the kernel's socket, without waiting. Under the socket's lock.
    pub(super) fn send_by_kernel(
        &self,
        call: &mut StreamCall,
        (message, len): (&Message<'_>, usize),
        flags: c_int,
    ) -> Answer {
        let fd = self.fd();
        let mut failed = None;
        let done = call.done;
        // Of a call that has done a part an error is the next one's.
        let is_over = || {
            let ready = sys::poll_one(fd, libc::POLLOUT).unwrap_or(0);
            ready & (libc::POLLERR | libc::POLLHUP) != 0
        };
        if done > 0 && is_over() {
            return Answer::Over(StreamOutcome::Done(done));
        }
        if let (0, Some(header)) = (done, message.header_of_parts()) {
            return self.send_parts(call, (header, len), flags);
        }
        let mut send = |data: &[u8]| {
            let is_last = call.done + data.len() == len;
            let more = match is_last {
                true => flags & libc::MSG_MORE,
                false => libc::MSG_MORE,
            };
            match streams::send(fd, data, more) {
                Ok(count) => {
                    call.done += count;
                    count
                }
                Err(errno) => {
                    failed = Some(errno);
                    0
                }
            }
        };
        let shown = match len {
            0 => {
                send(&[]);
                Ok(())
            }
            _ => message.show(done, send),
        };
        Answer::Over(match (shown, failed) {
            (Err(errno), _) => call.end(errno),
            (Ok(()), None) if call.done == len => StreamOutcome::Done(call.done),
            (Ok(()), None | Some(Errno(libc::EAGAIN))) => return Answer::Nothing,
            (Ok(()), Some(Errno(libc::EPIPE))) => {
                self.cannot_write(WriteError::BrokenPipe, call.done, flags)
            }
            (Ok(()), Some(errno)) => call.end(errno),
        })
    }

    /// The first attempt at several buffers: as one call, which makes no small segments.
    fn send_parts(
        &self,
        call: &mut StreamCall,
        (header, len): (*const libc::msghdr, usize),
        flags: c_int,
    ) -> Answer {
        let kernels = flags & libc::MSG_MORE | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the header is the application's (contract of `Message`).
        let sent = unsafe { streams::sendmsg(self.fd(), header, kernels) };
        if let Ok(count) = sent {
            call.done = count;
        }
        Answer::Over(match sent {
            Ok(count) if count == len => StreamOutcome::Done(count),
            Ok(_) | Err(Errno(libc::EAGAIN)) => return Answer::Nothing,
            Err(Errno(libc::EPIPE)) => self.cannot_write(WriteError::BrokenPipe, 0, flags),
            Err(errno) => StreamOutcome::Fail(errno),
        })
    }

    /// `shutdown(2)` of a connection that waits. `None`: it does not.
    pub(super) fn shut_down_in_kernel(&self, how: c_int) -> Option<Result<(), Errno>> {
        let role = self.role.lock();
        let is_waiting = matches!(&*role, Role::None) && self.waits_as_stream();
        is_waiting.then(|| streams::shutdown(self.fd(), how))
    }

    /// Before a call that moves octets of a file or a pipe: a connection that waits comes now, or
    /// stays with the kernel.
    pub(super) fn decide(&'static self, host: &Host<S>) {
        if self.waits_as_stream() && !self.take_from_kernel(host) && self.waits_as_stream() {
            host.leave_to_kernel(self, Reason::Message);
        }
    }

    /// The interface may be there. Who sleeps looks. Under the control lock.
    pub(super) fn may_come(&self) {
        self.waiting.call();
        self.readiness.sleepers.wake_all();
    }
}

/// What the kernel's socket is to be ready for.
pub(super) fn awaited(wanted: u32) -> libc::c_short {
    match wanted & events::OUT {
        0 => libc::POLLIN,
        _ => libc::POLLOUT,
    }
}
