//! Sending at a rate (`SO_MAX_PACING_RATE`) or at times (`SO_TXTIME`): messages go into the
//! socket's queue, as far as the send buffer has room.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dev_core::LockGuard;
use libc::c_int;
use links::interface::sending::Sender;
use links::interface::set::InterfaceSet;
use links::reason::Reason;
use sys::Errno;

use crate::sockets::blocking_call::BlockingCall;
use crate::sockets::host::Host;
use crate::sockets::pacing::polling_nsec;
use crate::sockets::pacing::queue::{PacedQueue, Packet, Room};
use crate::sockets::sleep::Sleep;
use crate::sockets::stack::Stack;
use crate::udp::destination::SendState;
use crate::udp::send::SendOutcome;
use crate::udp::send_options::SendOptions;
use crate::udp::socket::{UdpSocket, UdpStack};
use crate::udp::truesize::truesize;

/// What is further ahead is dropped, as by fq (`TCA_FQ_HORIZON`).
const HORIZON_NSEC: u64 = 10_000_000_000;
/// Looks at the clock before the caller gets a chance to be cancelled.
const LOOKS_PER_ATTEMPT: u32 = 1 << 12;

/// A blocking send call that waits for room.
#[derive(Debug)]
pub struct SendCall {
    call: BlockingCall,
    ends: Option<Errno>,
}

/// What became of its wait.
#[derive(Debug)]
pub enum RoomOutcome {
    /// There is room, perhaps: the call begins anew.
    Room,
    /// There is none: the call fails.
    Fail(Errno),
    /// Nothing yet: look for a cancellation request and call again.
    Again,
    /// Nothing yet: sleep as described, then call again.
    Sleep(Sleep),
}

impl SendCall {
    /// Begins it, for a call with these flags.
    pub fn begin<S: Stack>(host: &Host<S>, fd: c_int, socket: &UdpSocket<S>, flags: c_int) -> Self {
        let timeout_nsec = &socket.kernel_socket.send_timeout_nsec;
        Self {
            call: BlockingCall::begin(host, fd, socket, timeout_nsec, flags),
            ends: None,
        }
    }

    /// Whether a signal handler has run that ends the call with `EINTR` (signal(7)).
    pub fn interrupted(&self) -> bool {
        self.call.interrupted()
    }

    /// Whether the library has seen any handler run since the call began.
    pub fn any_handler(&self) -> bool {
        self.call.any_handler()
    }

    /// A signal has ended its sleep.
    pub fn end(&mut self, errno: Errno) {
        self.ends = Some(errno);
    }
}

impl<S: Stack> UdpSocket<S> {
    /// The kernel's socket has other options that concern what is sent.
    pub(in crate::udp) fn refresh_send_options(&self) {
        let rate_limit = self.attachment().rate_limit;
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        let options = SendOptions::read(fd, rate_limit);
        let mut send = self.send.lock();
        send.set_options(options);
        let queue = match options.is_paced() {
            true => send.paced.clone(),
            false => send.paced.take(),
        };
        drop(send);
        if let Some(queue) = queue {
            queue.set(options.rate, options.send_buffer);
        }
    }

    /// The socket is closed.
    pub(in crate::udp) fn leave_queue(&self) {
        let queue = self.send.lock().paced.take();
        if let Some(queue) = queue {
            queue.leave_socket();
            // The object's next life begins with an empty one.
            if self.is_full() {
                self.show_room(true);
            }
        }
    }
}

impl<S: UdpStack> UdpSocket<S> {
    /// Puts a message of `len` bytes into the queue: its packets, and when they are to leave, if
    /// the message says so.
    #[cold]
    pub(super) fn conclude_paced(
        &'static self,
        host: &Host<S>,
        mut send: LockGuard<'_, SendState<S>>,
        (sender, packets, at): (Sender<S>, Vec<Vec<u8>>, Option<u64>),
        len: usize,
    ) -> SendOutcome {
        if !host.pacers.are_looked_after() {
            return SendOutcome::Kernel(Reason::Option);
        }
        let options = send.options();
        let now = sys::now_nsec();
        let at = match at {
            // As the kernel, which takes 0 for none.
            None | Some(0) => None,
            Some(at) => match options.clock.and_then(|clock| monotonic(clock, at)) {
                Some(at) => Some(at),
                // It has no clock.
                None => return SendOutcome::Kernel(Reason::Message),
            },
        };
        let queue = send.paced.get_or_insert_with(|| {
            let queue = Arc::new(PacedQueue::new(&self.core));
            queue.set(options.rate, options.send_buffer);
            host.pacers.add(Arc::clone(&queue));
            queue
        });
        let queue = Arc::clone(queue);
        if !queue.has_room() {
            queue.release();
            if !queue.has_room() {
                return SendOutcome::Full;
            }
        }
        let datagrams = packets.len();
        send.skip_identifications(datagrams - 1);
        let counters = self.counters();
        counters.tx_packets.add(datagrams as u64);
        counters.tx_bytes.add(len as u64);
        self.note_thread(&self.sender, &counters.tx_thread);
        if at.is_some_and(|at| at > now.saturating_add(HORIZON_NSEC)) {
            counters.tx_errors.add(1);
            return SendOutcome::Done(len);
        }
        // Under the socket's lock: the order of calls is that of the queue.
        let next = queue.put(packets.into_iter().map(|bytes| Packet {
            sender,
            charge: truesize(bytes.len().saturating_sub(HEADERS_LEN)),
            bytes,
            at_nsec: at.unwrap_or(now),
            has_own_time: at.is_some(),
        }));
        drop(send);
        host.pacers.wait_until(next);
        SendOutcome::Done(len)
    }

    /// Waits for room in the queue, and lets packets leave meanwhile.
    pub fn wait_for_room(&'static self, host: &Host<S>, call: &mut SendCall) -> RoomOutcome {
        if self.generation() != call.call.generation {
            return RoomOutcome::Fail(Errno(libc::EBADF));
        }
        let Some(queue) = self.send.lock().paced.clone() else {
            return RoomOutcome::Room;
        };
        if !call.call.blocking {
            self.counters().tx_eagain.add(1);
            return RoomOutcome::Fail(Errno(libc::EAGAIN));
        }
        queue.begin_driving();
        let (next, outcome) = self.drive(host, &queue, call);
        queue.end_driving();
        // Without this thread.
        host.pacers.wait_until(next);
        outcome
    }

    fn drive(
        &'static self,
        host: &Host<S>,
        queue: &PacedQueue<S>,
        call: &mut SendCall,
    ) -> (u64, RoomOutcome) {
        let polls = host.settings().rx_poll != 0;
        for _ in 0..LOOKS_PER_ATTEMPT {
            let next = queue.release();
            if queue.has_room() {
                return (next, RoomOutcome::Room);
            }
            if let Some(errno) = self.has_to_end(call) {
                return (next, RoomOutcome::Fail(errno));
            }
            call.call.spin.look();
            let now = sys::now_nsec();
            let polls = polls && !call.call.spin.stops(Some(false));
            let sleeps_until = next.saturating_sub(polling_nsec(polls));
            if sleeps_until > now {
                return (next, self.sleep_until(queue, sleeps_until, call));
            }
            let polled_until = call.call.deadline_nsec.unwrap_or(u64::MAX).min(next);
            while sys::now_nsec() < polled_until {
                std::hint::spin_loop();
            }
        }
        call.call.blocking = call.call.blocking && !self.learns_nonblocking();
        (queue.release(), RoomOutcome::Again)
    }

    /// Whether a call that waits has to end now.
    fn has_to_end(&self, call: &SendCall) -> Option<Errno> {
        let timed_out = || {
            let deadline = call.call.deadline_nsec;
            deadline.is_some_and(|deadline| sys::now_nsec() >= deadline)
        };
        if call.ends.is_some() {
            return call.ends;
        }
        if call.interrupted() {
            return Some(Errno(libc::EINTR));
        }
        timed_out().then_some(Errno(libc::EAGAIN))
    }

    #[cold]
    fn sleep_until(
        &'static self,
        queue: &PacedQueue<S>,
        nsec: u64,
        call: &mut SendCall,
    ) -> RoomOutcome {
        let again = call.call.slept;
        call.call.slept = true;
        if !again && self.learns_nonblocking() {
            call.call.blocking = false;
            return RoomOutcome::Again;
        }
        let end = call
            .call
            .deadline_nsec
            .map_or(nsec, |deadline| deadline.min(nsec));
        let mut sleep = Sleep::new(Some(end));
        sleep.watch_set(&self.readiness.sleepers, &InterfaceSet::<S>::none());
        sleep.settle(again);
        if queue.has_room() || self.generation() != call.call.generation {
            let _ = sleep.end();
            return RoomOutcome::Room;
        }
        RoomOutcome::Sleep(sleep)
    }
}

/// Ethernet, IPv4 and UDP headers, in bytes.
const HEADERS_LEN: usize = 42;

/// A time of another clock.
fn monotonic(clock: c_int, nsec: u64) -> Option<u64> {
    if clock == libc::CLOCK_MONOTONIC {
        return Some(nsec);
    }
    let there = sys::time_of_clock(clock)?;
    Some(sys::now_nsec().saturating_add(nsec.saturating_sub(there)))
}
