//! Sending into a connection within this host.

use links::reason::Reason;

use libc::c_int;
use shm::{Hostile, Place};
use sys::Errno;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::message::Message;
use crate::sockets::stack::Stack;
use crate::tcp::call::{StreamCall, StreamOutcome};
use crate::tcp::in_kernel::{Answer, BESIDE_OCTETS};
use crate::tcp::socket::{TcpSocket, TcpStack};
use crate::tcp::state::local::{Local, Rings, Stage, Step};

impl<S: TcpStack> TcpSocket<S> {
    /// One attempt at a send call of `len` octets. `None`: the connection is no such one.
    pub(in crate::tcp) fn send_local(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        (message, len): (&Message<'_>, usize),
        flags: c_int,
    ) -> Option<Answer> {
        self.call_locally(host, call, |local, call| {
            self.try_to_send_local(local, call, (message, len), flags)
        })
    }

    fn try_to_send_local(
        &self,
        local: &mut Local<S>,
        call: &mut StreamCall,
        (message, len): (&Message<'_>, usize),
        flags: c_int,
    ) -> Step<StreamOutcome> {
        if flags & BESIDE_OCTETS != 0 {
            return Step::Leave(Reason::Message);
        }
        if let Stage::Shared(rings) = &mut local.stage
            && rings.out.is_open()
        {
            let is_wanted = rings.ours().map_or(true, shm::Direction::is_kernel_wanted);
            if rings.peer.is_gone() && matches!(rings.place(), Ok(Place::Ring(1..))) {
                return Step::Go(rings.send_to_nobody(call, len, flags));
            }
            if is_wanted || rings.peer.is_gone() || rings.incoming.is_over() {
                return Step::Leave(Reason::ShutDown);
            }
            return match rings.put(call, (message, len)) {
                Ok(Step::Nothing) => {
                    self.readiness.clear(events::OUT);
                    Step::Nothing
                }
                Ok(step) => {
                    self.counters().tx_bytes.add_contended(call.done as u64);
                    step
                }
                Err(Hostile) => Step::Leave(Reason::Poisoned),
            };
        }
        let before = call.done;
        let answer = self.send_by_kernel(call, (message, len), flags);
        let count = call.done - before;
        match &mut local.stage {
            Stage::Shared(rings) => rings.out.note_sent(count),
            _ => local.sent += count as u64,
        }
        answer.into()
    }
}

impl<S: Stack> Rings<S> {
    /// The peer has ended, and what it has written is to be read yet. As the kernel does: what
    /// nobody receives resets the connection.
    #[cold]
    fn send_to_nobody(&mut self, call: &StreamCall, len: usize, flags: c_int) -> StreamOutcome {
        let is_unread = self.ours().and_then(|ours| self.out.unread(ours)) != Ok(0);
        match std::mem::replace(&mut self.is_reset, true) {
            true if call.done == 0 && flags & libc::MSG_NOSIGNAL == 0 => StreamOutcome::BrokenPipe,
            true => call.end(Errno(libc::EPIPE)),
            false if is_unread => call.end(Errno(libc::ECONNRESET)),
            false => StreamOutcome::Done(len),
        }
    }

    /// Puts what there is room for into the ring.
    fn put(
        &mut self,
        call: &mut StreamCall,
        (message, len): (&Message<'_>, usize),
    ) -> Result<Step<StreamOutcome>, Hostile> {
        let memory = self.peer.slot(self.slot)?;
        let writer = self.peer.side();
        let direction = memory.direction(writer);
        let room = self.out.room(direction)?;
        let (out, mut count) = (&mut self.out, 0);
        let shown = message.show(call.done, |data| {
            let wanted = data.len().min(room - count);
            let mut given = 0;
            while given < wanted {
                let (at, len) = out.next(count + given);
                let len = len.min(wanted - given);
                memory.write(writer, at, &data[given..given + len]);
                given += len;
            }
            count += given;
            given
        });
        if count > 0 {
            out.publish(direction, count);
            self.peer.ring(self.slot);
            call.done += count;
        }
        if let Err(errno) = shown {
            return Ok(Step::Go(call.end(errno)));
        }
        if call.done >= len {
            return Ok(Step::Go(StreamOutcome::Done(call.done)));
        }
        out.want_room(direction);
        Ok(match out.room(direction)? {
            0 => Step::Nothing,
            _ => Step::Again,
        })
    }
}
