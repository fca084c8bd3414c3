//! Receiving from a stream.

use ::tcp::{Instant, ReadError, SeqNumber, UrgentError};
use libc::c_int;
use sys::{Errno, streams};

use crate::sockets::control::ControlRoom;
use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::message::Message;
use crate::sockets::payload::Received;
use crate::sockets::stack::Stack;
use crate::tcp::application::errno_of;
use crate::tcp::call::{POLLS_PER_ATTEMPT, StreamCall, StreamOutcome};
use crate::tcp::clock::now;
use crate::tcp::in_kernel::Answer;
use crate::tcp::options::TCP_INQ;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

/// `MSG_CMSG_COMPAT` of the kernel: programs may not say it.
const MSG_CMSG_COMPAT: c_int = c_int::MIN;
/// Flags with which the kernel answers at once: it looks for something else than data, or refuses.
const KERNELS_FLAGS: c_int = libc::MSG_ERRQUEUE | MSG_CMSG_COMPAT;

/// What came of one look at the stream.
enum Look {
    /// The call is over.
    Over(StreamOutcome),
    /// The call is over, and the kernel has told all that there is to tell.
    Told(StreamOutcome),
    /// Nothing, or not enough.
    Nothing,
    /// The call looks once more.
    Again,
}

impl<S: TcpStack> TcpSocket<S> {
    /// One attempt at a receive call.
    #[inline]
    pub fn receive(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> StreamOutcome {
        if flags & KERNELS_FLAGS != 0 || message.find_malformed() {
            return StreamOutcome::Kernel;
        }
        self.receives_by_call();
        if self.readiness.now() & events::RDHUP != 0 {
            // There is an answer, perhaps not the last one.
            self.interfaces.drain();
        }
        if host.settings().rx_drain_nsec > 0 {
            self.interfaces
                .receive_at_rate(host.settings().rx_drain_nsec);
        }
        for _ in 0..POLLS_PER_ATTEMPT {
            match self.try_to_receive(host, call, message, flags) {
                Look::Over(outcome) => {
                    if let StreamOutcome::Done(_) = outcome {
                        self.tell_of_rest(call, message, flags & libc::MSG_OOB);
                        let counters = self.counters();
                        self.note_thread(&self.receiver, &counters.rx_thread);
                    }
                    return outcome;
                }
                Look::Told(outcome) => return outcome,
                Look::Again => {}
                Look::Nothing => {
                    if let Some(outcome) = self.wait(call, events::IN | events::ALWAYS) {
                        if call.blocking && ends_empty(&outcome, message) {
                            return StreamOutcome::Done(0);
                        }
                        if let StreamOutcome::Done(_) = outcome {
                            self.tell_of_rest(call, message, 0);
                        }
                        return outcome;
                    }
                }
            }
        }
        StreamOutcome::Again
    }

    /// Says what a receive leaves beside the data.
    #[inline]
    fn tell_of_rest(&self, call: &StreamCall, message: &mut Message<'_>, flags: c_int) {
        if self.wishes.tells() {
            return self.tell_more(call, message, flags);
        }
        message.received_from_stream(flags);
    }

    /// In this order goes along when the octets came (`SO_TIMESTAMP` and its like), and how much is
    /// left to read (`TCP_INQ`).
    #[cold]
    fn tell_more(&self, call: &StreamCall, message: &mut Message<'_>, flags: c_int) {
        let mut room = message.control_room();
        message.received_from_stream(flags);
        if let Some(nsec) = call.came_nsec {
            self.wishes.stamps().put(nsec, Some(nsec), 0, &mut room);
        }
        if self.wishes.tells_unread() {
            self.put_unread(&mut room);
        }
        message.told(&room);
    }

    fn put_unread(&self, room: &mut ControlRoom) {
        let unread = match &*self.role.lock() {
            Role::Stream(stream) => stream.connection.unread_len(),
            _ => streams::readable_len(self.fd()),
        };
        let unread = c_int::try_from(unread).unwrap_or(c_int::MAX);
        room.put(libc::IPPROTO_TCP, TCP_INQ, &unread.to_ne_bytes());
    }

    #[inline]
    fn try_to_receive(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Look {
        let mut role = self.role.lock();
        // Under this lock the object does not begin another life.
        if self.generation() != call.generation {
            return Look::Over(StreamOutcome::Fail(Errno(libc::EBADF)));
        }
        let Role::Stream(stream) = &mut *role else {
            drop(role);
            let answer = match self.is_local() {
                true => self.receive_local(host, call, message, flags),
                false => None,
            };
            let answer =
                answer.unwrap_or_else(|| self.receive_in_kernel(host, call, message, flags));
            return match answer {
                Answer::Here => Look::Again,
                Answer::Over(outcome) => Look::Told(outcome),
                Answer::Nothing => Look::Nothing,
            };
        };
        let now = now();
        let looked = stream.read(now, call, message, flags);
        if self.wishes.stamps().any() && flags & libc::MSG_OOB == 0 {
            let peeked = match (&looked, flags & libc::MSG_PEEK) {
                (_, 0) => 0,
                (Look::Over(StreamOutcome::Done(len)), _) => *len,
                _ => 0,
            };
            stream.note_read(call, peeked);
        }
        let outcome = stream.settle(&self.core, now);
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
        looked
    }
}

/// Whether a call that wanted no octets has waited in vain: to the kernel that is success.
#[cold]
fn ends_empty(outcome: &StreamOutcome, message: &Message<'_>) -> bool {
    let is_over = matches!(
        outcome,
        StreamOutcome::Fail(Errno(libc::EAGAIN | libc::EINTR))
    );
    is_over && message.total_len() == Ok(0)
}

impl<S: Stack> Stream<S> {
    /// Whether a look that showed `len` octets would show more, or would end.
    pub(super) fn shows_more_than(&self, len: usize) -> bool {
        self.len_to_peek() > len || self.ends_behind(len)
    }

    /// Octets of a segment have come.
    #[cold]
    pub(super) fn note_arrival(&mut self, header: &wire::tcp::Header, data: &Received) {
        let age = data
            .frame()
            .and_then(|frame| self.interface.age_nsec(frame));
        let nsec = sys::wall_clock_nsec().saturating_sub(age.unwrap_or(0));
        let begin = SeqNumber(header.seq);
        let end = begin + data.as_ref().len() as u32;
        let read = self.connection.read_next();
        let arrivals = self.arrivals.get_or_insert_default();
        arrivals.note((begin, end), nsec, read);
    }

    /// A call has received octets, or has looked at so many.
    #[cold]
    fn note_read(&self, call: &mut StreamCall, peeked: usize) {
        let position = self.connection.read_next() + peeked as u32;
        if (call.done > 0 || peeked > 0)
            && let Some(arrivals) = &self.arrivals
        {
            call.came_nsec = arrivals.before(position).or(call.came_nsec);
        }
    }

    fn read(
        &mut self,
        now: Instant,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Look {
        if self.is_lent {
            return Look::Nothing;
        }
        if flags & libc::MSG_OOB != 0 {
            return Look::Over(self.read_urgent(message, flags));
        }
        if self.hides_data() {
            return Look::Nothing;
        }
        let Ok(len) = message.total_len() else {
            return Look::Over(StreamOutcome::Kernel);
        };
        if len == 0 {
            // It takes nothing, and waits until there is something.
            return self.peek(call, message, flags, 0, 1);
        }
        let low_water = self.connection.options().receive_low_water() as usize;
        let target = match flags & libc::MSG_WAITALL {
            0 => low_water.min(len),
            _ => len,
        };
        if flags & libc::MSG_PEEK != 0 {
            return self.peek(call, message, flags, len, target);
        }
        if self.leaves_error(call) && self.connection.readable_len() == 0 {
            return Look::Over(StreamOutcome::Done(call.done));
        }
        if message.takes_packets(flags) && !self.connection.has_urgent() {
            return self.read_whole(now, call, message);
        }
        let connection = &mut self.connection;
        let mut error = None;
        let before = call.done;
        let mut total = call.done;
        let filled = if flags & libc::MSG_TRUNC != 0 {
            // The data are thrown away.
            total += connection.skip(now, len - call.done);
            if total == before {
                error = connection.read(now, &mut [0]).err();
                if error.is_none() {
                    return Look::Over(StreamOutcome::Done(total));
                }
            }
            Ok(())
        } else {
            // 0 may also mean that an urgent octet is to be skipped first.
            let most = match connection.readable_len() {
                0 => usize::MAX,
                readable => readable,
            };
            message.fill(call.done, most, |room| match connection.read(now, room) {
                Ok(count) => {
                    total += count;
                    count
                }
                Err(failed) => {
                    error = Some(failed);
                    0
                }
            })
        };
        call.done = total;
        if let Err(errno) = filled {
            return Look::Over(call.end(errno));
        }
        if total >= target {
            return Look::Over(StreamOutcome::Done(total));
        }
        self.has_too_little(call, before, error)
    }

    /// Takes what there is as it is.
    #[cold]
    fn read_whole(
        &mut self,
        now: Instant,
        call: &mut StreamCall,
        message: &mut Message<'_>,
    ) -> Look {
        let Some(sink) = message.sink() else {
            return Look::Nothing;
        };
        while sink.has_room() {
            match self.connection.hold_payload(now) {
                Ok(Some(packet)) => {
                    call.done += packet.as_ref().len();
                    sink.push(packet);
                }
                Ok(None) => break,
                Err(_) if call.done > 0 => break,
                Err(ReadError::WouldBlock) => return Look::Nothing,
                Err(ReadError::Failed(error)) => return Look::Over(call.end(errno_of(error))),
            }
        }
        Look::Over(StreamOutcome::Done(call.done))
    }

    /// A look has found fewer octets than the call is for. `before`: so many were there.
    #[inline]
    fn has_too_little(&self, call: &StreamCall, before: usize, error: Option<ReadError>) -> Look {
        match error {
            Some(ReadError::WouldBlock) if call.done > 0 && !call.blocking => {
                Look::Over(StreamOutcome::Done(call.done))
            }
            Some(ReadError::WouldBlock) => Look::Nothing,
            Some(ReadError::Failed(error)) => Look::Over(call.end(errno_of(error))),
            // All that there is so far, and too little: more will come, or the next look finds the
            // end.
            None if call.done > before && !self.connection.is_at_mark() => Look::Nothing,
            // The end of the stream, or the urgent mark.
            None => Look::Over(StreamOutcome::Done(call.done)),
        }
    }

    /// Looks at what there is, `target` octets or more if the call waits.
    fn peek(
        &mut self,
        call: &mut StreamCall,
        message: &mut Message<'_>,
        flags: c_int,
        len: usize,
        target: usize,
    ) -> Look {
        let available = self.len_to_peek();
        if available == 0 {
            // The end of the stream, or the error.
            return match self.connection.read(now(), &mut [0]) {
                Ok(_) => Look::Over(StreamOutcome::Done(0)),
                Err(ReadError::WouldBlock) => Look::Nothing,
                Err(ReadError::Failed(error)) => Look::Over(StreamOutcome::Fail(errno_of(error))),
            };
        }
        let is_last_look = !call.blocking || call.ended_with().is_some();
        if available < target && !is_last_look && !self.ends_behind(available) {
            call.peeked = available;
            return Look::Nothing;
        }
        if flags & libc::MSG_TRUNC != 0 {
            return Look::Over(StreamOutcome::Done(available.min(len)));
        }
        let (total, filled) = message.fill_with(self.connection.peek(), available);
        Look::Over(match filled {
            Err(errno) if total == 0 => StreamOutcome::Fail(errno),
            _ => StreamOutcome::Done(total),
        })
    }

    /// What a look shows.
    fn len_to_peek(&self) -> usize {
        self.connection.peek().map(<[u8]>::len).sum()
    }

    /// Nothing will come that a look could show behind so many octets: the stream ends, or there is
    /// an error or the urgent octet.
    fn ends_behind(&self, len: usize) -> bool {
        let connection = &self.connection;
        self.is_read_shut
            || self.is_over()
            || connection.state().has_peer_fin()
            || connection.has_error()
            || connection.len_to_mark() == len
    }

    fn read_urgent(&mut self, message: &mut Message<'_>, flags: c_int) -> StreamOutcome {
        let octet = if flags & libc::MSG_PEEK != 0 {
            self.connection.peek_urgent()
        } else {
            self.connection.read_urgent()
        };
        match octet {
            Ok(octet) => {
                let mut count = 0;
                let filled = message.fill(0, 1, |room| {
                    room[0] = octet;
                    count = 1;
                    0
                });
                filled.map_or_else(StreamOutcome::Fail, |()| StreamOutcome::Done(count))
            }
            Err(UrgentError::None) => StreamOutcome::Fail(Errno(libc::EINVAL)),
            Err(UrgentError::NotReceived) => StreamOutcome::Fail(Errno(libc::EAGAIN)),
            Err(UrgentError::End) => StreamOutcome::Done(0),
        }
    }
}
