//! Octets that go from a pipe into a stream, or from a stream into a pipe (`splice(2)`). The system
//! calls on the pipe are made with no lock held, and never wait.

use std::mem::ManuallyDrop;

use ::tcp::{CHUNK_MAX, ReadError};
use libc::c_int;
use sys::{Errno, streams};

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::sleep::Sleep;
use crate::tcp::application::errno_of;
use crate::tcp::call::{POLLS_PER_ATTEMPT, StreamCall, StreamOutcome};
use crate::tcp::clock::now;
use crate::tcp::send_file::{Part, Step};
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// A pipe, and how much is to go through it.
#[derive(Debug)]
pub struct Pipe {
    fd: c_int,
    len: usize,
    /// A call that would wait for the pipe fails.
    is_nonblocking: bool,
    /// More follows (`SPLICE_F_MORE`).
    is_more: bool,
    /// What is on its way. Nothing is dropped where a thread may be cancelled:
    /// [`release`](Self::release).
    chunk: ManuallyDrop<Vec<u8>>,
    /// Only the kernel can use it: it cannot be read or written without waiting once the kernel has
    /// spliced it, so that its octets may be those of a file.
    is_kernels: bool,
    /// What the call has moved before the kernel got the stream.
    moved: usize,
}

/// The end of a pipe that a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipeEnd {
    /// What is read.
    Out,
    /// What is written to.
    In,
}

impl Pipe {
    /// `None`: the descriptor is no such end of a pipe. `flags` are those of `splice(2)`.
    pub fn find(fd: c_int, end: PipeEnd, len: usize, flags: u32) -> Option<Self> {
        let status = sys::file_status(fd).ok()?;
        let modes = sys::status_flags(fd).ok()?;
        let is_open = match (end, modes & libc::O_ACCMODE) {
            (_, libc::O_RDWR) => true,
            (PipeEnd::Out, mode) => mode == libc::O_RDONLY,
            (PipeEnd::In, mode) => mode == libc::O_WRONLY,
        };
        let is_path = modes & libc::O_PATH != 0;
        (status.kind == libc::S_IFIFO && is_open && !is_path).then(|| Self {
            fd,
            len: len.min(COUNT_MAX),
            is_nonblocking: modes & libc::O_NONBLOCK != 0 || flags & libc::SPLICE_F_NONBLOCK != 0,
            is_more: flags & libc::SPLICE_F_MORE != 0,
            chunk: ManuallyDrop::default(),
            is_kernels: false,
            moved: 0,
        })
    }

    /// Whether it has turned out that only the kernel can use the pipe.
    pub fn is_kernels(&self) -> bool {
        self.is_kernels
    }

    /// Of a call that is the kernel's: what it has moved so far, and what the kernel's socket is to
    /// send next. That was taken from the pipe when the stream had just become the kernel's.
    pub fn rest(&self) -> (usize, &[u8]) {
        (self.moved, &self.chunk)
    }

    /// Gives its memory back. It is not used afterwards.
    pub fn release(&mut self) {
        drop(std::mem::take(&mut *self.chunk));
    }

    /// The pipe has nothing, or no room: fails, or prepares a sleep until that changes.
    fn wait(&self, call: &StreamCall, events: libc::c_short) -> StreamOutcome {
        if let Some(errno) = call.ended_with() {
            return call.end(errno);
        }
        if self.is_nonblocking {
            return StreamOutcome::Fail(Errno(libc::EAGAIN));
        }
        let mut sleep = Sleep::new(None);
        sleep.watch(self.fd, events, None);
        sleep.settle(false);
        StreamOutcome::Sleep(sleep)
    }

    fn failed(&mut self, call: &StreamCall, errno: Errno) -> StreamOutcome {
        self.chunk.clear();
        if call.done == 0 && errno == Errno(libc::EOPNOTSUPP) {
            self.is_kernels = true;
            return StreamOutcome::Kernel;
        }
        call.end(errno)
    }
}

/// Most octets of one call (`MAX_RW_COUNT`).
const COUNT_MAX: usize = 0x7fff_f000;

impl<S: TcpStack> TcpSocket<S> {
    /// One attempt at a `splice(2)` from a pipe into the stream. [`StreamOutcome::Kernel`]: the
    /// kernel has the stream; what [`Pipe::rest`] has goes there first.
    pub fn send_pipe(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        pipe: &mut Pipe,
    ) -> StreamOutcome {
        self.decide(host);
        for _ in 0..POLLS_PER_ATTEMPT {
            self.interfaces.receive_waiting();
            // An empty pipe comes before what the stream has to say, and so does its end.
            let found = sys::poll_one(pipe.fd, libc::POLLIN).unwrap_or(libc::POLLIN);
            if found & libc::POLLIN == 0 {
                return match found {
                    0 if call.done == 0 => pipe.wait(call, libc::POLLIN),
                    _ => StreamOutcome::Done(call.done),
                };
            }
            let room = match self.room_to_send(host, call, &mut pipe.chunk) {
                Step::Octets(room) => room,
                Step::HandedOver => return Self::rest_is_kernels(host, call, pipe),
                Step::Over(outcome) => return outcome,
            };
            if room == 0 {
                if let Some(outcome) = self.wait(call, events::OUT) {
                    return outcome;
                }
                continue;
            }
            let most = room.min(pipe.len - call.done).min(CHUNK_MAX);
            match sys::read_now(pipe.fd, &mut pipe.chunk, most) {
                Ok(0) => return StreamOutcome::Done(call.done),
                Ok(_) => {}
                Err(Errno(libc::EAGAIN)) if call.done == 0 => {
                    return pipe.wait(call, libc::POLLIN);
                }
                Err(Errno(libc::EAGAIN)) => return StreamOutcome::Done(call.done),
                Err(errno) => return pipe.failed(call, errno),
            }
            // It is out of the pipe, so all of it is sent.
            match self.send_chunk(host, call, &mut pipe.chunk, pipe.is_more, Part::Whole) {
                Step::Octets(_) => pipe.chunk.clear(),
                Step::HandedOver => return Self::rest_is_kernels(host, call, pipe),
                Step::Over(outcome) => return outcome,
            }
            if call.done >= pipe.len {
                return StreamOutcome::Done(call.done);
            }
        }
        StreamOutcome::Again
    }

    fn rest_is_kernels(host: &Host<S>, call: &StreamCall, pipe: &mut Pipe) -> StreamOutcome {
        Self::wait_for_hand_over(host);
        pipe.moved = call.done;
        StreamOutcome::Kernel
    }

    /// One attempt at a `splice(2)` from the stream into a pipe.
    pub fn receive_into_pipe(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        pipe: &mut Pipe,
    ) -> StreamOutcome {
        self.decide(host);
        self.receives_by_call();
        if self.readiness.now() & events::RDHUP != 0 {
            self.interfaces.drain();
        }
        for _ in 0..POLLS_PER_ATTEMPT {
            // A full pipe comes before what the stream has to say.
            match sys::poll_one(pipe.fd, libc::POLLOUT) {
                Ok(0) => return pipe.wait(call, libc::POLLOUT),
                // Nobody reads it, which the kernel says.
                Ok(found) if found & libc::POLLERR != 0 => return StreamOutcome::Kernel,
                _ => {}
            }
            match self.lend_received(host, call, pipe) {
                Lent::Octets => {}
                Lent::Nothing => {
                    if let Some(outcome) = self.wait(call, events::IN | events::ALWAYS) {
                        return outcome;
                    }
                    continue;
                }
                Lent::Over(outcome) => return outcome,
            }
            let written = sys::write_now(pipe.fd, &pipe.chunk);
            self.take_lent(host, call, *written.as_ref().unwrap_or(&0));
            return match written {
                Ok(count) => StreamOutcome::Done(count),
                Err(Errno(libc::EAGAIN)) => pipe.wait(call, libc::POLLOUT),
                Err(errno) => pipe.failed(call, errno),
            };
        }
        StreamOutcome::Again
    }

    /// Copies what has been received. Others leave it alone until [`take_lent`](Self::take_lent).
    fn lend_received(&'static self, host: &Host<S>, call: &StreamCall, pipe: &mut Pipe) -> Lent {
        let mut role = self.role.lock();
        if self.generation() != call.generation {
            return Lent::Over(StreamOutcome::Fail(Errno(libc::EBADF)));
        }
        let Role::Stream(stream) = &mut *role else {
            drop(role);
            Self::wait_for_hand_over(host);
            return Lent::Over(StreamOutcome::Kernel);
        };
        if stream.is_lent {
            return Lent::Nothing;
        }
        let most = pipe.len.min(CHUNK_MAX);
        pipe.chunk.clear();
        for piece in stream.connection.peek() {
            let room = most - pipe.chunk.len();
            pipe.chunk
                .extend_from_slice(&piece[..piece.len().min(room)]);
        }
        if !pipe.chunk.is_empty() {
            stream.is_lent = true;
            return Lent::Octets;
        }
        let now = now();
        // The end of the stream, or the error.
        let read = stream.connection.read(now, &mut [0]);
        let outcome = stream.settle(&self.core, now);
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
        match read {
            Ok(_) => Lent::Over(StreamOutcome::Done(0)),
            Err(ReadError::WouldBlock) => Lent::Nothing,
            Err(ReadError::Failed(error)) => Lent::Over(StreamOutcome::Fail(errno_of(error))),
        }
    }

    /// So many octets of what was lent are in the pipe; the others stay in the stream.
    fn take_lent(&'static self, host: &Host<S>, call: &StreamCall, count: usize) {
        let mut role = self.role.lock();
        if self.generation() != call.generation {
            return;
        }
        let Role::Stream(stream) = &mut *role else {
            drop(role);
            Self::wait_for_hand_over(host);
            streams::discard(self.fd(), count);
            return;
        };
        let now = now();
        stream.is_lent = false;
        stream.connection.skip(now, count);
        let mut outcome = stream.settle(&self.core, now);
        if stream.connection.is_readable() {
            // Who has looked meanwhile was told of nothing.
            outcome.events |= events::IN;
        }
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
    }
}

/// What has become of a look for received octets.
enum Lent {
    Octets,
    Nothing,
    Over(StreamOutcome),
}
