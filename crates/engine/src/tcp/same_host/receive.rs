//! Receiving from a connection within this host.

use std::sync::atomic::Ordering;

use links::reason::Reason;

use libc::c_int;
use shm::{Hostile, Place};
use sys::{Errno, streams};

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::message::Message;
use crate::tcp::call::{StreamCall, StreamOutcome};
use crate::tcp::in_kernel::Answer;
use crate::tcp::socket::{TcpSocket, TcpStack};
use crate::tcp::state::local::{Local, Rings, Stage, Step};

/// Flags that mean the same here.
const KNOWN_FLAGS: c_int = libc::MSG_DONTWAIT
    | libc::MSG_NOSIGNAL
    | libc::MSG_WAITALL
    | libc::MSG_PEEK
    | libc::MSG_CMSG_CLOEXEC;

impl<S: TcpStack> TcpSocket<S> {
    /// One attempt at a receive call. `None`: the connection is no such one.
    pub(in crate::tcp) fn receive_local(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Option<Answer> {
        self.call_locally(host, call, |local, call| {
            self.try_to_receive_local(local, call, message, flags)
        })
    }

    fn try_to_receive_local(
        &self,
        local: &mut Local<S>,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Step<StreamOutcome> {
        let waits_peeking = libc::MSG_WAITALL | libc::MSG_PEEK;
        if flags & !KNOWN_FLAGS != 0 || flags & waits_peeking == waits_peeking {
            return Step::Leave(Reason::Message);
        }
        let Stage::Shared(rings) = &mut local.stage else {
            let (step, count) = self.receive_of_kernel(call, message, flags);
            local.taken += count as u64;
            return step;
        };
        match rings.place() {
            Ok(Place::Ring(0)) => {
                self.readiness.clear(events::IN);
                self.ask_for_end(rings)
            }
            Ok(Place::Ring(readable)) => self.take_local(rings, call, message, flags, readable),
            Ok(Place::Kernel) if rings.incoming.is_over() => Step::Leave(Reason::ShutDown),
            Ok(Place::Kernel) => {
                let (step, count) = self.receive_of_kernel(call, message, flags);
                if let Ok(memory) = rings.peer.slot(rings.slot)
                    && count > 0
                {
                    let direction = memory.direction(rings.side().other());
                    rings.incoming.note_taken(direction, count);
                }
                step
            }
            Err(Hostile) => Step::Leave(Reason::Poisoned),
        }
    }

    /// The ring is empty. Whether the connection has ended only the kernel knows: it is asked when
    /// it has woken the thread, and once a tick.
    fn ask_for_end(&self, rings: &mut Rings<S>) -> Step<StreamOutcome> {
        let hint = self
            .kernel_socket
            .readable_hint
            .swap(false, Ordering::Relaxed);
        let now = sys::tick_nsec();
        if !hint && now == rings.asked_nsec && !rings.peer.is_gone() {
            return Step::Nothing;
        }
        rings.asked_nsec = now;
        let ready = sys::poll_one(self.fd(), libc::POLLIN).unwrap_or(libc::POLLERR);
        // What was written before the end is read before it.
        match (ready, rings.place()) {
            (_, Ok(Place::Ring(1..)) | Ok(Place::Kernel)) => Step::Again,
            (0, _) if !rings.peer.is_gone() => Step::Nothing,
            _ => Step::Leave(Reason::ShutDown),
        }
    }

    /// Takes octets out of the ring, which has `readable`.
    fn take_local(
        &self,
        rings: &mut Rings<S>,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
        readable: usize,
    ) -> Step<StreamOutcome> {
        let Ok(len) = message.total_len() else {
            return Step::Go(StreamOutcome::Kernel);
        };
        if len == 0 {
            return Step::Go(StreamOutcome::Done(0));
        }
        let Ok(memory) = rings.peer.slot(rings.slot) else {
            return Step::Leave(Reason::Poisoned);
        };
        let writer = rings.peer.side().other();
        let direction = memory.direction(writer);
        let incoming = &mut rings.incoming;
        let mut count = 0;
        let filled = message.fill(call.done, readable, |room| {
            let wanted = room.len().min(readable - count);
            let mut given = 0;
            while given < wanted {
                let (at, len) = incoming.next(direction, count + given);
                let len = len.min(wanted - given);
                memory.read(writer, at, &mut room[given..given + len]);
                given += len;
            }
            count += given;
            given
        });
        if let (Err(errno), 0) = (filled, count) {
            return Step::Go(call.end(errno));
        }
        if flags & libc::MSG_PEEK != 0 {
            return match incoming.look(direction) {
                Ok(Place::Ring(_)) => {
                    message.received_from_stream(0);
                    Step::Go(StreamOutcome::Done(count))
                }
                _ => Step::Again,
            };
        }
        match incoming.commit(direction, count) {
            Ok(true) => {}
            Ok(false) => return Step::Again,
            Err(Hostile) => return Step::Leave(Reason::Poisoned),
        }
        call.done += count;
        if incoming.owes_room(direction) {
            rings.peer.ring(rings.slot);
        }
        if count == readable {
            self.readiness.clear(events::IN);
            if matches!(rings.place(), Ok(Place::Ring(1..))) {
                self.readiness.set(events::IN);
            }
        }
        self.counters().rx_bytes.add_contended(count as u64);
        match flags & libc::MSG_WAITALL != 0 && call.done < len {
            true => Step::Again,
            false => {
                message.received_from_stream(0);
                Step::Go(StreamOutcome::Done(call.done))
            }
        }
    }

    /// What the kernel's socket has, and how many octets of it were taken.
    fn receive_of_kernel(
        &self,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> (Step<StreamOutcome>, usize) {
        if flags & libc::MSG_WAITALL != 0 && call.blocking {
            return self.receive_all_of_kernel(call, message);
        }
        // SAFETY: the header is the application's (contract of `Message`).
        let received =
            unsafe { sys::recvmsg(self.fd(), message.header(), flags | libc::MSG_DONTWAIT) };
        match received {
            Ok(len) if flags & libc::MSG_PEEK != 0 => (Step::Go(StreamOutcome::Done(len)), 0),
            Ok(len) => (Step::Go(StreamOutcome::Done(len)), len),
            Err(Errno(libc::EAGAIN)) => (Step::Nothing, 0),
            Err(errno) => (Step::Go(StreamOutcome::Fail(errno)), 0),
        }
    }

    /// The same for a call that waits for all that it has room for.
    fn receive_all_of_kernel(
        &self,
        call: &mut StreamCall,
        message: &mut Message<'_>,
    ) -> (Step<StreamOutcome>, usize) {
        let Ok(len) = message.total_len() else {
            return (Step::Go(StreamOutcome::Kernel), 0);
        };
        let (fd, before) = (self.fd(), call.done);
        let ready = sys::poll_one(fd, libc::POLLIN).unwrap_or(0);
        // Of a call that has done a part an error is the next one's.
        if before > 0 && ready & libc::POLLERR != 0 && streams::readable_len(fd) == 0 {
            return (Step::Go(StreamOutcome::Done(before)), 0);
        }
        let mut done = before;
        let mut last = Ok(1);
        let filled = message.fill(before, usize::MAX, |room| {
            last = receive(fd, room);
            let count = last.unwrap_or(0);
            done += count;
            count
        });
        call.done = done;
        message.received_from_stream(0);
        let step = match (filled, last) {
            (Err(errno), _) => Step::Go(call.end(errno)),
            (Ok(()), Err(Errno(libc::EAGAIN))) => Step::Nothing,
            (Ok(()), Err(errno)) => Step::Go(call.end(errno)),
            (Ok(()), Ok(0)) => Step::Go(StreamOutcome::Done(done)),
            (Ok(()), Ok(_)) if done >= len => Step::Go(StreamOutcome::Done(done)),
            (Ok(()), Ok(_)) => Step::Again,
        };
        (step, done - before)
    }
}

/// Receives without waiting.
fn receive(fd: c_int, room: &mut [u8]) -> Result<usize, Errno> {
    let mut part = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: all-zero is a value of this struct of integers and pointers.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    // SAFETY: the only buffer is writable for its length.
    unsafe { sys::recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT) }
}
