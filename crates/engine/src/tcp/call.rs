//! What calls on a stream have in common: how long they poll, when they sleep or end.

use std::ops::{ControlFlow, Deref, DerefMut};

use libc::c_int;
use sys::Errno;

use crate::sockets::blocking_call::BlockingCall;
use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::sleep::Sleep;
use crate::sockets::stack::Stack;
use crate::tcp::in_kernel::awaited;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

/// What became of a call so far.
#[derive(Debug)]
pub enum StreamOutcome {
    /// Done: the call's result.
    Done(usize),
    /// Failed.
    Fail(Errno),
    /// Failed with `EPIPE`, and the thread gets `SIGPIPE`.
    BrokenPipe,
    /// The call is for the kernel's socket.
    Kernel,
    /// Nothing yet: look for a cancellation request and call again.
    Again,
    /// Nothing yet, and nothing to do meanwhile but what is left of other connections:
    /// `Engine::use_idle_moment`, then call again.
    Idle,
    /// Nothing yet: sleep as described, then call again.
    Sleep(Sleep),
}

/// Polls between two looks at clock and signals.
const POLLS_PER_CHECK: u32 = 64;
/// Polls in vain, less than a microsecond, after which more are likely to be.
const POLLS_UNTIL_IDLE: u32 = 16;
/// Polls, and attempts, before the caller gets a chance to be cancelled.
pub(super) const POLLS_PER_ATTEMPT: u32 = 1 << 14;

/// A call from its beginning to its end, over any number of attempts.
#[derive(Debug)]
pub struct StreamCall {
    call: BlockingCall,
    polls: u32,
    /// Bytes that the call has moved.
    pub(super) done: usize,
    /// The call ends with this as soon as there is nothing to do.
    ends: Option<Errno>,
    /// The connection has gone to the kernel's socket in the midst of the call, which goes on
    /// there.
    is_cut: bool,
    /// Octets that the call has seen and left where they are: it waits for more.
    pub(super) peeked: usize,
    /// When the last of the octets came that it has received, if the program asks.
    pub(super) came_nsec: Option<u64>,
}

impl Deref for StreamCall {
    type Target = BlockingCall;

    #[inline]
    fn deref(&self) -> &BlockingCall {
        &self.call
    }
}

impl DerefMut for StreamCall {
    #[inline]
    fn deref_mut(&mut self) -> &mut BlockingCall {
        &mut self.call
    }
}

/// Which way a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To receive, or for a connection.
    In,
    /// To send, or for the end of a handshake.
    Out,
}

impl StreamCall {
    /// Begins a call on the socket that was found behind a descriptor. `flags` are the
    /// application's.
    #[inline]
    pub fn begin<S: Stack>(
        host: &Host<S>,
        fd: c_int,
        socket: &TcpSocket<S>,
        direction: Direction,
        flags: c_int,
    ) -> Self {
        let kernel_socket = &socket.kernel_socket;
        let timeout_nsec = match direction {
            Direction::In => &kernel_socket.receive_timeout_nsec,
            Direction::Out => &kernel_socket.send_timeout_nsec,
        };
        Self {
            call: BlockingCall::begin(host, fd, socket, timeout_nsec, flags),
            polls: 0,
            done: 0,
            ends: None,
            is_cut: false,
            peeked: 0,
            came_nsec: None,
        }
    }

    /// The call ends with this, unless there is something to do.
    pub fn end_with(&mut self, errno: Errno) {
        self.ends = Some(errno);
    }

    /// What [`end_with`](Self::end_with) has said.
    pub(super) fn ended_with(&self) -> Option<Errno> {
        self.ends
    }

    /// Whether the call, which has done a part, goes on at the kernel's socket: it would wait for
    /// the rest.
    pub fn goes_on_in_kernel(&self) -> bool {
        self.is_cut
    }

    /// The kernel's socket has the connection: it has the call, or the rest of it.
    pub(super) fn handed_over(&mut self) -> StreamOutcome {
        if self.done == 0 {
            return StreamOutcome::Kernel;
        }
        self.is_cut = self.blocking && self.ends.is_none();
        StreamOutcome::Done(self.done)
    }

    /// What the call has done, or how it fails if that is nothing.
    pub(super) fn end(&self, errno: Errno) -> StreamOutcome {
        match self.done {
            0 => StreamOutcome::Fail(errno),
            done => StreamOutcome::Done(done),
        }
    }
}

impl<S: Stack> Stream<S> {
    /// Whether the connection has failed behind what the call has done: that is for the next call
    /// to tell.
    #[inline]
    pub(super) fn leaves_error(&self, call: &StreamCall) -> bool {
        call.done > 0 && self.connection.has_error()
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// After an attempt in vain: polls until one of `wanted` is there, or prepares a sleep. `None`:
    /// try again.
    #[inline]
    pub(super) fn wait(&'static self, call: &mut StreamCall, wanted: u32) -> Option<StreamOutcome> {
        if self.generation() != call.generation {
            return Some(StreamOutcome::Fail(Errno(libc::EBADF)));
        }
        if let Some(errno) = call.ends {
            return Some(call.end(errno));
        }
        if !call.blocking {
            // What came before the call counts.
            if call.polls == 0 {
                call.polls = 1;
                if self.interfaces.receive_present() > 0 && self.has_news(call, wanted) {
                    return None;
                }
                if self.unseen.has_any() {
                    return Some(StreamOutcome::Again);
                }
            }
            self.counters().rx_eagain.add_contended(1);
            return Some(call.end(Errno(libc::EAGAIN)));
        }
        if self.waits_as_stream() {
            return self.sleep(call, wanted);
        }
        if self.is_local() {
            return self.wait_locally(call, wanted);
        }
        loop {
            call.polls += 1;
            self.interfaces.poll();
            if self.has_news(call, wanted) {
                return None;
            }
            if self.unseen.has_any() {
                return self.show_first(call);
            }
            if self.is_idle(call) {
                return Some(StreamOutcome::Idle);
            }
            if call.polls.is_multiple_of(POLLS_PER_CHECK)
                && let ControlFlow::Break(outcome) = self.check_polling(call)
            {
                return outcome;
            }
            if call.stops_polling() {
                return self.sleep(call, wanted);
            }
            std::hint::spin_loop();
        }
    }

    /// The same of a connection within this host: one look at a time, at memory alone.
    fn wait_locally(&'static self, call: &mut StreamCall, wanted: u32) -> Option<StreamOutcome> {
        call.polls += 1;
        if call.polls.is_multiple_of(POLLS_PER_CHECK)
            && let ControlFlow::Break(outcome) = self.check_polling(call)
        {
            return outcome;
        }
        // Of what goes through the kernel only that tells.
        if !self.is_silent() || call.stops_polling() {
            return self.sleep(call, wanted);
        }
        std::hint::spin_loop();
        None
    }

    /// What a call looks at now and then while it polls: whether it goes on.
    fn check_polling(&self, call: &mut StreamCall) -> ControlFlow<Option<StreamOutcome>> {
        call.spin.look();
        if self.has_to_end(call) || self.is_committed() {
            return ControlFlow::Break(None);
        }
        if call.polls >= POLLS_PER_ATTEMPT {
            call.polls = 0;
            call.blocking = !self.learns_nonblocking();
            return ControlFlow::Break(Some(StreamOutcome::Again));
        }
        ControlFlow::Continue(())
    }

    /// Whether the call has something to do.
    #[inline]
    fn has_news(&self, call: &StreamCall, wanted: u32) -> bool {
        match call.peeked {
            0 => self.readiness.now() & wanted != 0,
            len => self.shows_more_than(len),
        }
    }

    /// The same of a call that has looked at so many octets, and is ready to do so again at any
    /// time.
    #[cold]
    fn shows_more_than(&self, len: usize) -> bool {
        match &*self.role.lock() {
            Role::Stream(stream) => stream.shows_more_than(len),
            // The next attempt finds out.
            _ => true,
        }
    }

    /// The same of a listener, whose kernel's socket has connections of its own: one poll at a
    /// time.
    pub(super) fn wait_once(
        &'static self,
        call: &mut StreamCall,
        wanted: u32,
    ) -> Option<StreamOutcome> {
        if let Some(errno) = call.ends {
            return Some(call.end(errno));
        }
        if !call.blocking {
            let is_first = call.polls == 0;
            call.polls = 1;
            if is_first
                && self.interfaces.receive_present() > 0
                && self.readiness.now() & wanted != 0
            {
                return None;
            }
            if is_first && self.unseen.has_any() {
                return Some(StreamOutcome::Again);
            }
            return Some(call.end(Errno(libc::EAGAIN)));
        }
        call.polls += 1;
        if self.unseen.has_any() {
            return self.show_first(call);
        }
        if self.is_idle(call) {
            return Some(StreamOutcome::Idle);
        }
        if call.polls.is_multiple_of(POLLS_PER_CHECK) {
            call.spin.look();
            if self.has_to_end(call) {
                return None;
            }
        }
        if call.polls >= POLLS_PER_ATTEMPT {
            call.polls = 0;
            call.blocking = !self.learns_nonblocking();
            return Some(StreamOutcome::Again);
        }
        if call.stops_polling() {
            return self.sleep(call, wanted);
        }
        std::hint::spin_loop();
        None
    }

    /// Packets are to be shown before the call goes on, which waits: the caller does that. `None`:
    /// the call has to end.
    #[cold]
    fn show_first(&self, call: &mut StreamCall) -> Option<StreamOutcome> {
        let has_shown = std::mem::replace(&mut call.has_shown, true);
        match has_shown && self.has_to_end(call) {
            true => None,
            false => Some(StreamOutcome::Again),
        }
    }

    /// Whether a call that waits has the time to end other connections.
    #[inline]
    fn is_idle(&self, call: &StreamCall) -> bool {
        call.polls % POLLS_PER_CHECK == POLLS_UNTIL_IDLE && self.globals.ended.has_some()
    }

    /// Whether a call that waits has to end now, after a last look.
    fn has_to_end(&self, call: &mut StreamCall) -> bool {
        let timed_out = call
            .deadline_nsec
            .is_some_and(|deadline| sys::now_nsec() >= deadline);
        if call.interrupted() {
            call.ends = Some(Errno(libc::EINTR));
        } else if timed_out {
            call.ends = Some(Errno(libc::EAGAIN));
        }
        call.ends.is_some()
    }

    #[cold]
    fn sleep(&'static self, call: &mut StreamCall, wanted: u32) -> Option<StreamOutcome> {
        if self.has_to_end(call) {
            return None;
        }
        let again = call.slept;
        if !again && self.learns_nonblocking() {
            call.blocking = false;
            return None;
        }
        if !again {
            self.counters().rx_poll_miss.add_contended(1);
            call.slept = true;
        }
        // After it wakes it polls at least once before it sleeps again.
        call.polls_left = call.polls_left.map(|_| 1);
        let mut sleep = Sleep::new(call.deadline_nsec);
        let is_local = self.is_local();
        // That it has ended the kernel says of a connection within this host.
        let is_end_awaited = is_local && wanted & events::OUT == 0;
        if !self.is_silent() || is_end_awaited {
            // A listener's, or of a connection in the kernel. What that of a stream here says is
            // not true.
            sleep.watch(self.fd(), awaited(wanted), Some(self.life()));
        }
        sleep.watch_socket(self);
        if is_local {
            sleep.watch_peers(self.globals.peers);
        }
        sleep.settle(again);
        self.recall_from_descendants();
        self.interfaces.poll_all_rings();
        if is_local {
            self.globals.peers.tell_news();
        }
        let is_ready = match call.peeked {
            0 => self.look() & (wanted | events::ALWAYS) != 0,
            len => self.shows_more_than(len),
        };
        if self.unseen.has_any_before_sleep() {
            let _ = sleep.end();
            return Some(StreamOutcome::Again);
        }
        let has_news = is_ready || self.waiting.is_called();
        if has_news || self.generation() != call.generation || self.is_committed() {
            let _ = sleep.end();
            return None;
        }
        Some(StreamOutcome::Sleep(sleep))
    }
}
