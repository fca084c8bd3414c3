//! Receiving: poll first, then sleep.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;

use libc::c_int;
use links::moderated_sleep::Naps;
use sys::Errno;

use crate::sockets::blocking_call::BlockingCall;
use crate::sockets::direct::DirectReceive;
use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::message::Message;
use crate::sockets::sleep::Sleep;
use crate::sockets::stack::{SocketWatcher, Stack};
use crate::udp::socket::UdpSocket;

/// What became of a receive call so far.
#[derive(Debug)]
pub enum RecvOutcome {
    /// Received: the call's result.
    Done(usize),
    /// Failed.
    Fail(Errno),
    /// The call is for the kernel's socket.
    Kernel,
    /// Nothing yet: look for a cancellation request and call again.
    Again,
    /// Nothing yet: sleep as described, then call again.
    Sleep(Sleep),
}

/// A receive call from its beginning to its end, over any number of attempts.
#[derive(Debug)]
pub struct RecvCall {
    call: BlockingCall,
    naps: Naps,
}

impl Deref for RecvCall {
    type Target = BlockingCall;

    #[inline]
    fn deref(&self) -> &BlockingCall {
        &self.call
    }
}

impl DerefMut for RecvCall {
    #[inline]
    fn deref_mut(&mut self) -> &mut BlockingCall {
        &mut self.call
    }
}

/// `MSG_CMSG_COMPAT` of the kernel: programs may not say it.
const MSG_CMSG_COMPAT: c_int = c_int::MIN;
/// Flags with which the kernel answers at once: it looks for something else than datagrams, or
/// refuses. All others mean what they mean here or nothing, as far as UDP is concerned (kernel
/// `net/ipv4/udp.c`).
const KERNELS_FLAGS: c_int = libc::MSG_ERRQUEUE | MSG_CMSG_COMPAT;
/// Polls between two looks at clock and signals.
const POLLS_PER_CHECK: u32 = 64;
/// Polls before the caller gets a chance to be cancelled.
const POLLS_PER_ATTEMPT: u32 = 1 << 14;

impl RecvCall {
    /// Begins a call on the socket that was found behind a descriptor. `flags` are the
    /// application's.
    #[inline]
    pub fn begin<S: Stack>(host: &Host<S>, fd: c_int, socket: &UdpSocket<S>, flags: c_int) -> Self {
        let timeout_nsec = &socket.kernel_socket.receive_timeout_nsec;
        Self {
            call: BlockingCall::begin(host, fd, socket, timeout_nsec, flags),
            naps: Naps::default(),
        }
    }
}

impl<S: Stack> UdpSocket<S> {
    /// One attempt at a receive call.
    #[inline]
    pub fn receive(
        &'static self,
        host: &Host<S>,
        call: &mut RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> RecvOutcome {
        if let Some(outcome) = self.before_polling(host, call, message, flags) {
            return outcome;
        }
        let os_ratio = host.settings().rx_udp_poll_os_ratio;
        for polls in 1..=POLLS_PER_ATTEMPT {
            if self.readiness.now() & events::IN != 0
                && let Some(result) = self.take(message, flags, call.generation, !call.slept)
            {
                self.count_for_kernel(os_ratio, flags);
                return result.map_or_else(RecvOutcome::Fail, RecvOutcome::Done);
            }
            let frames = if flags & libc::MSG_PEEK == 0 {
                match self.poll_directly(call, message, flags) {
                    Ok(result) => {
                        self.count_for_kernel(os_ratio, flags);
                        return result.map_or_else(RecvOutcome::Fail, RecvOutcome::Done);
                    }
                    Err(frames) => frames,
                }
            } else {
                self.interfaces.poll()
            };
            let may_wait_elsewhere =
                frames >= host.settings().poll_batch_max || self.interfaces.has_several_rings();
            if !call.blocking && may_wait_elsewhere {
                // What came before the call may lie behind others' frames, or in another ring.
                self.interfaces.receive_present();
            }
            if self.unseen.has_any()
                && let Some(outcome) = self.show_first(call, message, flags)
            {
                return outcome;
            }
            if self.readiness.now() & events::IN != 0 && polls % POLLS_PER_CHECK != 0 {
                continue;
            }
            let told_nsec = || self.kernel_told_nsec();
            let asks_kernel = !self.is_offloaded()
                || self.os_polls.kernel_is_first()
                || self.take_readable_hint()
                || self.os_polls.due(os_ratio, call.blocking, told_nsec);
            if asks_kernel && let Some(outcome) = self.receive_from_kernel(call, message, flags) {
                self.os_polls.hit();
                return outcome;
            }
            if !call.blocking {
                if self.is_another_life(call) {
                    return RecvOutcome::Fail(Errno(libc::EBADF));
                }
                self.counters().rx_eagain.add_contended(1);
                return RecvOutcome::Fail(Errno(libc::EAGAIN));
            }
            if polls % POLLS_PER_CHECK == 0 {
                if let Some(errno) = self.must_end(call) {
                    return self.last_look(call, message, flags, errno);
                }
                call.spin.look();
            }
            let yield_every = host.settings().rx_poll_yield;
            if yield_every > 0 && polls.is_multiple_of(yield_every) {
                sys::yield_cpu();
            }
            if call.stops_polling() || !self.is_offloaded() {
                return self.sleep(host, call, message, flags);
            }
            std::hint::spin_loop();
        }
        call.blocking = call.blocking && !self.learns_nonblocking();
        RecvOutcome::Again
    }

    /// What ends a call before it looks at a ring.
    #[inline]
    fn before_polling(
        &'static self,
        host: &Host<S>,
        call: &mut RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Option<RecvOutcome> {
        if self.is_another_life(call) {
            return Some(RecvOutcome::Fail(Errno(libc::EBADF)));
        }
        if flags & KERNELS_FLAGS != 0 || self.is_left_to_kernel() || message.find_malformed() {
            return Some(RecvOutcome::Kernel);
        }
        self.receives_by_call();
        if self.os_polls.kernel_is_first()
            && let Some(outcome) = self.receive_older(call, message, flags)
        {
            return Some(outcome);
        }
        if !self.os_polls.rings_are_next()
            && self.take_readable_hint()
            && let Some(outcome) = self.receive_from_kernel(call, message, flags)
        {
            return Some(outcome);
        }
        let drain_nsec = host.settings().rx_drain_nsec;
        if drain_nsec > 0 {
            self.interfaces.receive_at_rate(drain_nsec);
        }
        None
    }

    /// What the kernel's socket has had since before the socket came past the kernel.
    #[cold]
    fn receive_older(
        &self,
        call: &RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Option<RecvOutcome> {
        // In this order: what comes while the flows begin is older, too.
        let is_here = self.is_offloaded();
        let outcome = self.receive_from_kernel(call, message, flags);
        if outcome.is_none() && is_here {
            self.os_polls.end_with_kernel();
        }
        outcome
    }

    /// A datagram was taken from a ring, or looked at: see
    /// [`OsPolls::received`](crate::udp::os_polls::OsPolls::received).
    #[inline]
    fn count_for_kernel(&self, os_ratio: u32, flags: c_int) {
        if self
            .os_polls
            .received(os_ratio, flags & libc::MSG_PEEK != 0)
        {
            self.kernel_socket
                .readable_hint
                .store(true, Ordering::Relaxed);
        }
    }

    /// Whether the kernel's socket may have something to read. The caller asks it.
    #[inline]
    fn take_readable_hint(&self) -> bool {
        let hint = &self.kernel_socket.readable_hint;
        hint.load(Ordering::Relaxed) && hint.swap(false, Ordering::Relaxed)
    }

    /// At which tick an epoll set was last told what the kernel's socket has to read: what it had
    /// is known here since (`readable_hint`). 0: never, or no set asks for that.
    #[cold]
    fn kernel_told_nsec(&self) -> u64 {
        self.readiness
            .latest_of_watchers(|place| place.kernel_told_nsec())
    }

    /// `Err`: no datagram came for the call, but this many frames.
    #[inline]
    fn poll_directly(
        &'static self,
        call: &RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Result<Result<usize, Errno>, usize> {
        let direct = DirectReceive::new(self, message, flags, call.generation, !call.slept);
        let mut direct = Some(direct);
        let frames = self.interfaces.poll_for(&mut direct);
        direct.and_then(|direct| direct.result).ok_or(frames)
    }

    /// Packets are to be shown before the call goes on: the caller does that. A call that does not
    /// wait has it done once.
    #[cold]
    fn show_first(
        &self,
        call: &mut RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Option<RecvOutcome> {
        let has_shown = std::mem::replace(&mut call.has_shown, true);
        match (has_shown, call.blocking) {
            (false, _) => Some(RecvOutcome::Again),
            (true, false) => None,
            (true, true) => Some(match self.must_end(call) {
                Some(errno) => self.last_look(call, message, flags, errno),
                None => RecvOutcome::Again,
            }),
        }
    }

    /// Whether the descriptor was closed since the call began, or before.
    #[inline]
    fn is_another_life(&self, call: &RecvCall) -> bool {
        call.generation.is_multiple_of(2) || self.generation() != call.generation
    }

    /// Why a call that waits has to end now.
    fn must_end(&self, call: &RecvCall) -> Option<Errno> {
        if self.is_another_life(call) {
            return Some(Errno(libc::EBADF));
        }
        if call.interrupted() {
            return Some(Errno(libc::EINTR));
        }
        let timed_out = call
            .deadline_nsec
            .is_some_and(|deadline| sys::now_nsec() >= deadline);
        timed_out.then_some(Errno(libc::EAGAIN))
    }

    /// The call has to end with `errno`, unless there is a datagram: the kernel, too, prefers that
    /// to a signal or the end of the time.
    #[cold]
    pub fn last_look(
        &self,
        call: &RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
        errno: Errno,
    ) -> RecvOutcome {
        if self.is_another_life(call) {
            return RecvOutcome::Fail(errno);
        }
        self.interfaces.poll_all_rings();
        if self.os_polls.kernel_is_first()
            && let Some(outcome) = self.receive_older(call, message, flags)
        {
            return outcome;
        }
        if let Some(result) = self.take(message, flags, call.generation, false) {
            return result.map_or_else(RecvOutcome::Fail, RecvOutcome::Done);
        }
        self.receive_from_kernel(call, message, flags)
            .unwrap_or(RecvOutcome::Fail(errno))
    }

    #[cold]
    fn sleep(
        &'static self,
        host: &Host<S>,
        call: &mut RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> RecvOutcome {
        if let Some(errno) = self.must_end(call) {
            return self.last_look(call, message, flags, errno);
        }
        let again = call.slept;
        if !again && self.learns_nonblocking() {
            call.blocking = false;
            return RecvOutcome::Again;
        }
        if !again {
            self.counters().rx_poll_miss.add_contended(1);
            call.slept = true;
        } else if !self.is_offloaded() && self.is_shut_in_kernel() {
            return RecvOutcome::Kernel;
        }
        // After it wakes it polls at least once before it sleeps again.
        call.polls_left = call.polls_left.map(|_| 1);
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        let mut sleep = Sleep::new(call.deadline_nsec);
        sleep.watch(fd, libc::POLLIN, Some(self.life()));
        sleep.watch_socket(self);
        let moderation = host.settings().moderation;
        if let Some(nsec) = call.naps.next(moderation, &self.interfaces) {
            sleep.nap(nsec, &self.interfaces);
        }
        sleep.settle(again);
        self.recall_from_descendants();
        self.interfaces.poll_all_rings();
        if self.unseen.has_any_before_sleep() {
            let _ = sleep.end();
            return RecvOutcome::Again;
        }
        if self.look() & events::IN != 0 {
            let _ = sleep.end();
            if self.os_polls.kernel_is_first() {
                return RecvOutcome::Again;
            }
            return self
                .take(message, flags, call.generation, false)
                .map_or(RecvOutcome::Again, |result| {
                    result.map_or_else(RecvOutcome::Fail, RecvOutcome::Done)
                });
        }
        RecvOutcome::Sleep(sleep)
    }

    /// Whether another process has shut the kernel's socket down for reading. A call that waits
    /// returns 0 then, and only such a call does (kernel `__skb_wait_for_more_packets`): it is the
    /// kernel's to end, which it does at once.
    #[cold]
    fn is_shut_in_kernel(&self) -> bool {
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        sys::poll_one(fd, libc::POLLRDHUP).is_ok_and(|ready| ready & libc::POLLRDHUP != 0)
    }

    /// Asks the kernel's socket, without waiting. `None`: it has nothing.
    #[cold]
    fn receive_from_kernel(
        &self,
        call: &RecvCall,
        message: &mut Message<'_>,
        flags: c_int,
    ) -> Option<RecvOutcome> {
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        if self.is_another_life(call) {
            return Some(RecvOutcome::Fail(Errno(libc::EBADF)));
        }
        if let Some(errno) = self.take_postponed_error() {
            self.kernel_socket
                .readable_hint
                .store(true, Ordering::Relaxed);
            return Some(RecvOutcome::Fail(errno));
        }
        if message.refuses_copies() {
            let is_there = sys::poll_one(fd, libc::POLLIN).is_ok_and(|ready| ready != 0);
            return is_there.then_some(RecvOutcome::Fail(Errno(libc::EIO)));
        }
        // SAFETY: the message is the application's, valid for recvmsg(2) (contract of
        // `Message::new`).
        let result = unsafe { sys::recvmsg(fd, message.header(), flags | libc::MSG_DONTWAIT) };
        match result {
            Ok(len) => {
                self.tell_drops(message);
                let peeks = flags & libc::MSG_PEEK != 0;
                self.os_polls
                    .received_from_kernel(peeks, || self.waiting_max());
                self.count_os_receive(Ok(len));
                // There may be more.
                self.kernel_socket
                    .readable_hint
                    .store(true, Ordering::Relaxed);
                Some(RecvOutcome::Done(len))
            }
            Err(Errno(libc::EAGAIN)) => {
                self.os_polls.kernel_is_empty();
                None
            }
            // The number is another file's: the socket was closed past every hook.
            Err(Errno(libc::ENOTSOCK | libc::EBADF)) => Some(RecvOutcome::Kernel),
            Err(errno) => {
                self.count_os_receive(Err(errno));
                // Behind an error there may be a datagram, of which nobody tells again.
                self.kernel_socket
                    .readable_hint
                    .store(true, Ordering::Relaxed);
                Some(RecvOutcome::Fail(errno))
            }
        }
    }
}
