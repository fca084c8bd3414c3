//! Sending octets of a file (`sendfile(2)`): they are read into memory that becomes the stream's,
//! with no lock held, since a page may have to come from a disk. What then has no room is read
//! again: the file's position says only what was taken.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use ::tcp::{CHUNK_MAX, WriteError};
use libc::{c_int, off64_t};
use sys::Errno;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::tcp::call::{POLLS_PER_ATTEMPT, StreamCall, StreamOutcome};
use crate::tcp::clock::now;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// Most octets of one call (`MAX_RW_COUNT`).
const COUNT_MAX: usize = 0x7fff_f000;

/// What a `sendfile(2)` to a stream is to do.
#[derive(Debug)]
pub enum FileToSend {
    /// The kernel refuses the call, or does nothing, before it looks at the stream.
    Unsuitable,
    /// Only the kernel reads such a file as the kernel does.
    Kernels,
    /// The file has ended: nothing is sent.
    Ended,
    /// Octets of the file are read and sent.
    Range(FileRange),
}

/// Octets of a file that a call sends.
#[derive(Debug)]
pub struct FileRange {
    fd: c_int,
    start: off64_t,
    count: usize,
    /// Where the file ended as the call began.
    end: off64_t,
    /// The call began where the file's position is, and moves that.
    moves_position: bool,
    /// What was read last. As much of it as was not sent is read again.
    ///
    /// Nothing is dropped where a thread may be cancelled: [`release`](Self::release).
    chunk: ManuallyDrop<Vec<u8>>,
    /// The file cannot be read here.
    is_kernels: bool,
}

impl FileToSend {
    /// Looks at the file. `offset`: where to begin, if not at the file's position.
    pub fn find(fd: c_int, offset: Option<off64_t>, count: usize) -> Self {
        let Ok(status) = sys::file_status(fd) else {
            return Self::Unsuitable;
        };
        match status.kind {
            libc::S_IFREG => {}
            // What has no positions is never sent so, and a directory is not read.
            libc::S_IFDIR | libc::S_IFIFO | libc::S_IFSOCK | libc::S_IFLNK => {
                return Self::Unsuitable;
            }
            _ => return Self::Kernels,
        }
        let Ok(start) = offset.map_or_else(|| sys::file_position(fd), Ok) else {
            return Self::Unsuitable;
        };
        let is_range = start >= 0
            && off64_t::try_from(count).is_ok_and(|count| start.checked_add(count).is_some());
        if !is_range || count == 0 {
            return Self::Unsuitable;
        }
        let end = off64_t::try_from(status.len).unwrap_or(off64_t::MAX);
        if start >= end {
            match sys::read_at(fd, start, &mut Vec::new(), 1) {
                Ok(0) => return Self::Ended,
                // It has grown, unless it is one that does not say its length.
                Ok(_) if end > 0 => {}
                _ => return Self::Kernels,
            }
        }
        Self::Range(FileRange {
            fd,
            start,
            count: count.min(COUNT_MAX),
            end,
            moves_position: offset.is_none(),
            chunk: ManuallyDrop::default(),
            is_kernels: false,
        })
    }
}

impl FileRange {
    /// Whether it has turned out that only the kernel can read the file.
    pub fn is_kernels(&self) -> bool {
        self.is_kernels
    }

    /// Gives its memory back. It is not used afterwards.
    pub fn release(&mut self) {
        drop(std::mem::take(&mut *self.chunk));
    }

    /// Notes that so many octets were sent. Returns where the next call goes on.
    pub fn sent(&self, count: usize) -> off64_t {
        let position = self.position(count);
        if self.moves_position {
            let _ = sys::set_file_position(self.fd, position);
        }
        position
    }

    fn position(&self, done: usize) -> off64_t {
        let done = off64_t::try_from(done).unwrap_or(0);
        self.start.saturating_add(done)
    }

    /// Whether nothing follows so many octets, as far as it is known.
    fn is_last(&self, done: usize) -> bool {
        done >= self.count || self.position(done) >= self.end
    }

    /// Reads what follows `done` octets, as much as has room.
    fn read(&mut self, done: usize, room: usize) -> Result<usize, Errno> {
        let most = room.min(self.count - done).min(CHUNK_MAX);
        sys::read_at(self.fd, self.position(done), &mut self.chunk, most)
    }
}

/// What came of one look at the stream.
pub(super) enum Step {
    /// For so many there is room, or so many are sent.
    Octets(usize),
    /// The kernel has the stream.
    HandedOver,
    Over(StreamOutcome),
}

/// How much of a chunk is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// What has room.
    WithRoom,
    /// All of it.
    Whole,
}

impl<S: TcpStack> TcpSocket<S> {
    /// Whether the program has set `O_APPEND`, with which nothing is sent by `sendfile(2)` and
    /// `splice(2)`.
    pub fn appends(&self) -> bool {
        self.kernel_socket.appends.load(Ordering::Relaxed)
    }

    /// One attempt at a call that sends octets of a file.
    pub fn send_file(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        range: &mut FileRange,
    ) -> StreamOutcome {
        self.decide(host);
        for _ in 0..POLLS_PER_ATTEMPT {
            // The peer may have made room.
            self.interfaces.receive_waiting();
            let room = match self.room_to_send(host, call, &mut range.chunk) {
                Step::Octets(room) => room,
                Step::HandedOver => return Self::handed_over(host, call),
                Step::Over(outcome) => return outcome,
            };
            let mut is_held_up = room == 0;
            if !is_held_up {
                let read = match range.read(call.done, room) {
                    Ok(0) => return StreamOutcome::Done(call.done),
                    Ok(read) => read,
                    Err(errno) if call.done == 0 && errno != Errno(libc::EBADF) => {
                        range.is_kernels = true;
                        return StreamOutcome::Kernel;
                    }
                    Err(errno) => return call.end(errno),
                };
                // Between the pieces more is to come (`SPLICE_F_MORE`), as the kernel has it.
                let is_more = !range.is_last(call.done + read);
                match self.send_chunk(host, call, &mut range.chunk, is_more, Part::WithRoom) {
                    Step::Octets(sent) => is_held_up = sent < read,
                    Step::HandedOver => return Self::handed_over(host, call),
                    Step::Over(outcome) => return outcome,
                }
                if range.is_last(call.done) {
                    return StreamOutcome::Done(call.done);
                }
            }
            if is_held_up && let Some(outcome) = self.wait(call, events::OUT) {
                return outcome;
            }
        }
        StreamOutcome::Again
    }

    /// For how many octets there is room. Takes memory for them.
    pub(super) fn room_to_send(
        &'static self,
        host: &Host<S>,
        call: &StreamCall,
        chunk: &mut Vec<u8>,
    ) -> Step {
        let mut role = self.role.lock();
        if self.generation() != call.generation {
            return Step::Over(StreamOutcome::Fail(Errno(libc::EBADF)));
        }
        let Role::Stream(stream) = &mut *role else {
            return Step::HandedOver;
        };
        if stream.leaves_error(call) {
            return Step::Over(StreamOutcome::Done(call.done));
        }
        let connection = &mut stream.connection;
        let room = connection.room_to_write();
        if let Ok(room) = room {
            if chunk.capacity() == 0 {
                *chunk = connection.take_spare_chunk();
            }
            return Step::Octets(room);
        }
        let outcome = stream.settle(&self.core, now());
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
        self.step_of(room, call)
    }

    fn step_of(&self, written: Result<usize, WriteError>, call: &StreamCall) -> Step {
        match written {
            Ok(sent) => Step::Octets(sent),
            Err(WriteError::WouldBlock) => Step::Octets(0),
            Err(error) => Step::Over(self.cannot_write(error, call.done, 0)),
        }
    }

    /// The kernel has the stream: the call begins there, or goes on.
    fn handed_over(host: &Host<S>, call: &mut StreamCall) -> StreamOutcome {
        Self::wait_for_hand_over(host);
        call.handed_over()
    }

    /// Sends what is in `chunk`.
    pub(super) fn send_chunk(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        chunk: &mut Vec<u8>,
        is_more: bool,
        part: Part,
    ) -> Step {
        let mut role = self.role.lock();
        if self.generation() != call.generation {
            return Step::Over(StreamOutcome::Fail(Errno(libc::EBADF)));
        }
        let Role::Stream(stream) = &mut *role else {
            return Step::HandedOver;
        };
        if stream.migration.count_call() && stream.moves_to_caller() {
            self.counters().tx_migrations.add_contended(1);
        }
        let now = now();
        let connection = &mut stream.connection;
        let written = match part {
            Part::WithRoom => connection.write_chunk(now, chunk, is_more),
            Part::Whole => connection.write_whole(now, chunk, is_more),
        };
        let outcome = stream.settle(&self.core, now);
        let sender = stream.egress.as_ref().map(|egress| *egress.sender);
        drop(role);
        self.after(host, &outcome, sender);
        if host.settings().tcp_sends_poll {
            self.interfaces.poll();
        }
        if let Ok(sent) = written {
            call.done += sent;
            let counters = self.counters();
            counters.tx_bytes.add_contended(sent as u64);
            self.note_thread(&self.sender, &counters.tx_thread);
        }
        self.step_of(written, call)
    }
}
