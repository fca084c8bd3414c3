//! `poll(2)`; `select(2)` is the same with bit sets.

use std::sync::atomic::{AtomicU32, Ordering};

use dev_core::Backend;
use libc::c_short;

use crate::engine::{Engine, Object};
use crate::mux::call::{MuxCall, MuxOutcome, ROUNDS_PER_ATTEMPT, Step};
use crate::mux::epoll::Registration;
use crate::mux::select_sets::select_now;
use crate::sockets::events;
use crate::sockets::interface::InterfaceSet;
use crate::sockets::readiness::Readiness;
use crate::sockets::reason::Reason;
use crate::sockets::sleep::Sleep;
use crate::sockets::socket::SocketCore;
use crate::sys::{self, Errno};

/// Our sockets among the descriptors of a call.
#[derive(Debug)]
pub struct PolledSockets<B: Backend> {
    /// Index in the call's descriptors, and the socket.
    sockets: Vec<(usize, &'static SocketCore<B>)>,
}

impl<B: Backend> Engine<B> {
    /// Finds our sockets among the descriptors of a `poll(2)`. `None`: there is none, the call is for the kernel.
    pub fn polled_sockets(&self, fds: &[libc::pollfd]) -> Option<PolledSockets<B>> {
        let mut sockets = Vec::new();
        for (index, polled) in fds.iter().enumerate() {
            match self.look_up(polled.fd) {
                Some(Object::Udp(socket)) if !socket.is_left_to_kernel() => {
                    sockets.push((index, &**socket));
                }
                // The kernel cannot see from outside that a set of ours is ready.
                Some(Object::Epoll(set)) => set.leave_sockets_to_kernel(self, Reason::NestedEpoll),
                Some(Object::Udp(_)) | None => {}
            }
        }
        (!sockets.is_empty()).then_some(PolledSockets { sockets })
    }

    /// One attempt at a `poll(2)` with sockets of ours in it.
    pub fn poll(
        &self,
        call: &mut MuxCall,
        fds: &mut [libc::pollfd],
        polled: &PolledSockets<B>,
    ) -> MuxOutcome {
        let interfaces = InterfaceSet::new();
        for interface in polled
            .sockets
            .iter()
            .flat_map(|(_, socket)| socket.interfaces.iter())
        {
            interfaces.add(interface);
        }
        if interfaces.is_empty() {
            call.has_nothing_to_poll();
        }
        for _ in 0..ROUNDS_PER_ATTEMPT {
            if let Some(outcome) = self.ready(call, fds, polled, Readiness::now) {
                return outcome;
            }
            let received = call.receive_from(&interfaces);
            if received && let Some(outcome) = self.ready(call, fds, polled, Readiness::now) {
                return outcome;
            }
            if call.asks_kernel()
                && let Some(outcome) = ask_kernel(call, fds, polled)
            {
                return outcome;
            }
            match call.next_step(received) {
                Step::Poll => {}
                Step::TimedOut => {
                    fds.iter_mut().for_each(|polled| polled.revents = 0);
                    return MuxOutcome::Done(0);
                }
                Step::Interrupted => return MuxOutcome::Fail(Errno(libc::EINTR)),
                Step::Sleep => return self.poll_sleep(call, fds, polled, &interfaces),
            }
        }
        MuxOutcome::Again
    }

    /// The result if one of our sockets is ready, with the kernel's part at every `VMA_SELECT_SKIP_OS`-th time.
    fn ready(
        &self,
        call: &MuxCall,
        fds: &mut [libc::pollfd],
        polled: &PolledSockets<B>,
        look: impl Fn(&Readiness<Registration<B>>) -> u32,
    ) -> Option<MuxOutcome> {
        let is_ready = |(index, socket): &(usize, &'static SocketCore<B>)| {
            wanted(&fds[*index]) & look(&socket.readiness) != 0
        };
        if !polled.sockets.iter().any(is_ready) {
            return None;
        }
        let asked = self.settings().select_skip_os > 0 && {
            static CALLS: AtomicU32 = AtomicU32::new(0);
            CALLS
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(self.settings().select_skip_os)
        };
        if !(asked && matches!(ask_kernel(call, fds, polled), Some(MuxOutcome::Done(_)))) {
            fds.iter_mut().for_each(|polled| polled.revents = 0);
        }
        for (index, socket) in &polled.sockets {
            let polled = &mut fds[*index];
            polled.revents |= socket.readiness.report_along(wanted(polled)) as c_short;
        }
        let count = fds.iter().filter(|polled| polled.revents != 0).count();
        // Another thread may have taken the datagram meanwhile; zero would say that the time is over.
        (count > 0).then_some(MuxOutcome::Done(count))
    }

    #[cold]
    fn poll_sleep(
        &self,
        call: &mut MuxCall,
        fds: &mut [libc::pollfd],
        polled: &PolledSockets<B>,
        interfaces: &InterfaceSet<B>,
    ) -> MuxOutcome {
        let mut sleep = Sleep::new(call.deadline_nsec);
        for polled in fds.iter() {
            sleep.watch(polled.fd, polled.events);
        }
        for (_, socket) in &polled.sockets {
            sleep.watch_socket(socket);
        }
        interfaces.poll();
        if let Some(outcome) = self.ready(call, fds, polled, Readiness::look) {
            sleep.end();
            return outcome;
        }
        call.ask_kernel_next();
        MuxOutcome::Sleep(sleep)
    }
}

/// What a call wants to know of a descriptor.
fn wanted(polled: &libc::pollfd) -> u32 {
    u32::from(polled.events.cast_unsigned()) | events::ALWAYS
}

/// Whether there is more to say of a descriptor than that it is none.
fn is_ready(polled: &libc::pollfd) -> bool {
    polled.revents & !libc::POLLNVAL != 0
}

/// What the kernel says of the descriptors, ours included. `None`: nothing is ready.
fn ask_kernel<B: Backend>(
    call: &MuxCall,
    fds: &mut [libc::pollfd],
    polled: &PolledSockets<B>,
) -> Option<MuxOutcome> {
    let found = match sys::poll_now(fds) {
        Err(Errno(libc::EINVAL)) if call.is_select => select_now(fds),
        found => found,
    };
    match found {
        Ok(0) => None,
        Err(_) if call.is_last_after_signal() => None,
        Ok(_) if call.is_last_after_signal() && !fds.iter().any(is_ready) => None,
        Ok(count) => {
            for (index, socket) in &polled.sockets {
                if u32::from(fds[*index].revents.cast_unsigned()) & !events::OUT != 0 {
                    socket.shadow.readable_hint.store(true, Ordering::Relaxed);
                }
            }
            Some(MuxOutcome::Done(count))
        }
        Err(errno) => Some(MuxOutcome::Fail(errno)),
    }
}
