//! Sending into a stream.

use links::reason::Reason;

use ::tcp::{Instant, WriteError};
use libc::c_int;
use sys::Errno;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::message::{DUMMY_SEND, Message};
use crate::sockets::stack::Stack;
use crate::tcp::application::errno_of;
use crate::tcp::call::{POLLS_PER_ATTEMPT, StreamCall, StreamOutcome};
use crate::tcp::clock::now;
use crate::tcp::in_kernel::Answer;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

/// Flags that the stream knows.
const KNOWN_FLAGS: c_int = libc::MSG_DONTWAIT
    | libc::MSG_NOSIGNAL
    | libc::MSG_MORE
    | libc::MSG_OOB
    | libc::MSG_EOR
    | libc::MSG_CONFIRM
    | libc::MSG_DONTROUTE;

/// What came of one look at the stream.
enum Written {
    All,
    Refused(WriteError),
    Fault(Errno),
}

impl<S: TcpStack> TcpSocket<S> {
    /// One attempt at a send call.
    #[inline]
    pub fn send(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        message: &Message<'_>,
        flags: c_int,
    ) -> StreamOutcome {
        if flags & DUMMY_SEND != 0 {
            return self.send_dummy(message);
        }
        if flags & !KNOWN_FLAGS != 0 || message.has_control() {
            // Zero copy, Fast Open, control data.
            host.leave_to_kernel(self, Reason::Message);
            return StreamOutcome::Kernel;
        }
        let Ok(len) = message.total_len() else {
            return StreamOutcome::Kernel;
        };
        // The peer may have reset the connection, or made room.
        self.interfaces.receive_waiting();
        for _ in 0..POLLS_PER_ATTEMPT {
            let mut role = self.role.lock();
            if self.generation() != call.generation {
                return StreamOutcome::Fail(Errno(libc::EBADF));
            }
            let Role::Stream(stream) = &mut *role else {
                drop(role);
                let answer = match self.is_local() {
                    true => self.send_local(host, call, (message, len), flags),
                    false => None,
                };
                let answer = answer
                    .unwrap_or_else(|| self.send_in_kernel(host, call, (message, len), flags));
                match answer {
                    Answer::Here => {}
                    Answer::Over(outcome) => return outcome,
                    Answer::Nothing => {
                        if let Some(outcome) = self.wait(call, events::OUT) {
                            return outcome;
                        }
                    }
                }
                continue;
            };
            if stream.migration.count_call() && stream.moves_to_caller() {
                self.counters().tx_migrations.add_contended(1);
            }
            if stream.leaves_error(call) && call.done < len {
                return StreamOutcome::Done(call.done);
            }
            let now = now();
            let written = stream.write(now, &mut call.done, (message, len), flags);
            let outcome = stream.settle(&self.core, now);
            let sender = stream.egress.as_ref().map(|egress| *egress.sender);
            drop(role);
            self.after(host, &outcome, sender);
            if host.settings().tcp_sends_poll {
                self.interfaces.poll();
            }
            match written {
                Written::All => {
                    let counters = self.counters();
                    counters.tx_bytes.add_contended(call.done as u64);
                    self.note_thread(&self.sender, &counters.tx_thread);
                    return StreamOutcome::Done(call.done);
                }
                Written::Fault(errno) => return call.end(errno),
                Written::Refused(WriteError::WouldBlock) => {
                    if let Some(outcome) = self.wait(call, events::OUT) {
                        return outcome;
                    }
                }
                Written::Refused(error) => return self.cannot_write(error, call.done, flags),
            }
        }
        StreamOutcome::Again
    }

    /// A send that sends nothing.
    #[cold]
    fn send_dummy(&self, message: &Message<'_>) -> StreamOutcome {
        let Role::Stream(stream) = &mut *self.role.lock() else {
            return StreamOutcome::Fail(Errno(libc::EINVAL));
        };
        let refused = stream.connection.write(now(), &[]).err();
        match (refused, message.sent_dummy()) {
            (None | Some(WriteError::WouldBlock), Ok(len)) => {
                self.counters().tx_dummy.add_contended(1);
                StreamOutcome::Done(len)
            }
            (None | Some(WriteError::WouldBlock), Err(errno)) => StreamOutcome::Fail(errno),
            (Some(_), _) => StreamOutcome::Fail(Errno(libc::EPIPE)),
        }
    }

    /// The end of a call that has sent `done` octets and can send no more.
    #[cold]
    pub(super) fn cannot_write(
        &self,
        error: WriteError,
        done: usize,
        flags: c_int,
    ) -> StreamOutcome {
        if done > 0 {
            return StreamOutcome::Done(done);
        }
        self.counters().tx_errors.add_contended(1);
        let errno = match error {
            WriteError::WouldBlock => Errno(libc::EAGAIN),
            WriteError::BrokenPipe => Errno(libc::EPIPE),
            WriteError::Failed(error) => errno_of(error),
        };
        match (errno, flags & libc::MSG_NOSIGNAL) {
            (Errno(libc::EPIPE), 0) => StreamOutcome::BrokenPipe,
            _ => StreamOutcome::Fail(errno),
        }
    }
}

impl<S: Stack> Stream<S> {
    /// Takes as much as there is room for of a message of `len` octets, of which `done` are sent.
    #[inline]
    fn write(
        &mut self,
        now: Instant,
        done: &mut usize,
        (message, len): (&Message<'_>, usize),
        flags: c_int,
    ) -> Written {
        let connection = &mut self.connection;
        let mut refused = None;
        let shown = if *done == len {
            // Nothing to send: only whether that would be possible.
            refused = connection.write(now, &[]).err();
            Ok(())
        } else {
            message.show(*done, |data| {
                let is_last = *done + data.len() == len;
                let written = if flags & libc::MSG_OOB != 0 && is_last {
                    connection.write_urgent(now, data)
                } else if flags & libc::MSG_MORE != 0 {
                    connection.write_more(now, data)
                } else {
                    connection.write(now, data)
                };
                match written {
                    Ok(count) => {
                        *done += count;
                        count
                    }
                    Err(error) => {
                        refused = Some(error);
                        0
                    }
                }
            })
        };
        if flags & libc::MSG_EOR != 0 && *done == len {
            connection.end_record();
        }
        match (shown, refused) {
            (Err(errno), _) => Written::Fault(errno),
            (Ok(()), Some(error)) => Written::Refused(error),
            (Ok(()), None) if *done < len => Written::Refused(WriteError::WouldBlock),
            (Ok(()), None) => Written::All,
        }
    }
}
