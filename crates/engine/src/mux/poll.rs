//! `poll(2)`; `select(2)` is the same with bit sets.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::c_short;
use links::interface::set::InterfaceSet;
use sys::Errno;

use crate::mux::call::{MuxCall, MuxOutcome, ROUNDS_PER_ATTEMPT, Step};
use crate::mux::inline_list::InlineList;
use crate::mux::select_sets::select_now;
use crate::sockets::events;
use crate::sockets::host::Host;
use crate::sockets::sleep::Sleep;
use crate::sockets::stack::Stack;

/// Our sockets among the descriptors of a call.
#[derive(Debug)]
pub struct PolledSockets<S: Stack> {
    /// Index in the call's descriptors, and the socket.
    sockets: InlineList<(usize, S)>,
}

impl<S: Stack> PolledSockets<S> {
    /// The sockets, each with its index in the call's descriptors. `None`: there are none.
    pub(crate) fn new(sockets: impl Iterator<Item = (usize, S)>) -> Option<Self> {
        let sockets = InlineList::of(sockets)?;
        Some(Self { sockets })
    }

    /// One attempt at a `poll(2)` with sockets of ours in it.
    pub(crate) fn poll(
        &self,
        host: &Host<S>,
        call: &mut MuxCall,
        fds: &mut [libc::pollfd],
    ) -> MuxOutcome {
        let interfaces = InterfaceSet::none();
        for (interface, rings) in self
            .sockets
            .iter()
            .flat_map(|(_, socket)| socket.core().interfaces.iter_rings())
        {
            interfaces.add(interface, rings);
        }
        if interfaces.is_empty() && !host.peers.is_active() {
            call.stop_polling();
        }
        for _ in 0..ROUNDS_PER_ATTEMPT {
            // First: what is ready must not hide what has come for others.
            let received = call.receive_from(&interfaces);
            host.hear_peers();
            if host.unseen.has_any() && call.shows_first() {
                return MuxOutcome::Again;
            }
            if let Some(outcome) = self.ready(host, call, fds, now) {
                return outcome;
            }
            if call.asks_kernel() {
                call.asked_kernel();
                if let Some(outcome) = self.ask_kernel(call, fds) {
                    call.found_by_kernel = true;
                    return outcome;
                }
            }
            match call.next_step(received) {
                Step::Poll => {}
                Step::TimedOut => {
                    fds.iter_mut().for_each(|polled| polled.revents = 0);
                    return MuxOutcome::Done(0);
                }
                Step::Interrupted => return MuxOutcome::Fail(Errno(libc::EINTR)),
                Step::Sleep => return self.sleep(host, call, fds, &interfaces),
            }
        }
        MuxOutcome::Again
    }

    /// The result if one of our sockets is ready, with the kernel's part at every
    /// `VMA_SELECT_SKIP_OS`-th time that the call has not asked the kernel yet.
    fn ready(
        &self,
        host: &Host<S>,
        call: &MuxCall,
        fds: &mut [libc::pollfd],
        look: impl Fn(S) -> u32,
    ) -> Option<MuxOutcome> {
        let settings = host.settings();
        let may_hold = host.unseen.is_used();
        let look = |socket: S| match may_hold {
            true => look(socket) | socket.core().unseen.held(),
            false => look(socket),
        };
        let is_ready = |(index, socket): &(usize, S)| wanted(&fds[*index]) & look(*socket) != 0;
        if !self.sockets.iter().any(is_ready) {
            return None;
        }
        let asked = settings.select_skip_os > 0 && call.may_hide_kernels() && {
            static CALLS: AtomicU32 = AtomicU32::new(0);
            CALLS
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(settings.select_skip_os)
        };
        if !(asked && matches!(self.ask_kernel(call, fds), Some(MuxOutcome::Done(_)))) {
            fds.iter_mut().for_each(|polled| polled.revents = 0);
        }
        for (index, socket) in self.sockets.iter() {
            let polled = &mut fds[*index];
            let readiness = &socket.core().readiness;
            polled.revents |= readiness.report_along(wanted(polled)) as c_short;
            if may_hold {
                polled.revents |= socket.core().unseen.tell_held(wanted(polled)) as c_short;
            }
        }
        let count = fds.iter().filter(|polled| polled.revents != 0).count();
        // Another thread may have taken the datagram meanwhile; zero would say that the time is
        // over.
        (count > 0).then_some(MuxOutcome::Done(count))
    }

    #[cold]
    fn sleep(
        &self,
        host: &Host<S>,
        call: &mut MuxCall,
        fds: &mut [libc::pollfd],
        interfaces: &InterfaceSet<S>,
    ) -> MuxOutcome {
        let settings = host.settings();
        let mut sleep = Sleep::new(call.deadline_nsec);
        let silent = self.silent();
        let mut ours = self.sockets.iter().peekable();
        for (index, polled) in fds.iter().enumerate() {
            let own = ours.next_if(|(place, _)| *place == index);
            if silent.binary_search(&index).is_err() {
                let life = own.map(|(_, socket)| socket.core().life());
                let events = match own.is_some_and(|(_, socket)| socket.core().is_full()) {
                    true => polled.events & !(events::OUT as c_short),
                    false => polled.events,
                };
                sleep.watch(polled.fd, events, life);
            }
        }
        for (_, socket) in self.sockets.iter() {
            sleep.watch_socket(socket.core());
        }
        if let Some(nsec) = call.naps.next(settings.moderation, interfaces) {
            sleep.nap(nsec, interfaces);
        }
        sleep.watch_peers(host.peers);
        sleep.settle(call.has_slept);
        for (_, socket) in self.sockets.iter() {
            // A call that began before they were the kernel's.
            socket.core().recall_from_descendants();
        }
        interfaces.poll_all_rings();
        host.hear_peers();
        if host.unseen.has_any_before_sleep() {
            let _ = sleep.end();
            return MuxOutcome::Again;
        }
        if let Some(outcome) = self.ready(host, call, fds, S::look) {
            let _ = sleep.end();
            return outcome;
        }
        MuxOutcome::Sleep(sleep)
    }

    /// Whether the kernel knows nothing of one of our sockets.
    fn has_silent(&self) -> bool {
        self.sockets
            .iter()
            .any(|(_, socket)| socket.core().is_silent())
    }

    /// Where those are, in order. Mostly nowhere.
    fn silent(&self) -> Vec<usize> {
        let silent = self.sockets.iter().filter(|(_, it)| it.core().is_silent());
        silent.map(|(index, _)| *index).collect()
    }

    /// Lets `look` see all descriptors but those of which the kernel knows nothing.
    #[cold]
    fn without_silent<R>(
        &self,
        fds: &mut [libc::pollfd],
        look: impl FnOnce(&mut [libc::pollfd]) -> R,
    ) -> R {
        let places = self.silent().into_iter();
        let silent: Vec<_> = places.map(|index| (index, fds[index].fd)).collect();
        silent.iter().for_each(|(index, _)| fds[*index].fd = -1);
        let result = look(fds);
        silent.iter().for_each(|(index, fd)| fds[*index].fd = *fd);
        result
    }

    /// What the kernel says of the descriptors, ours included. `None`: nothing is ready.
    fn ask_kernel(&self, call: &MuxCall, fds: &mut [libc::pollfd]) -> Option<MuxOutcome> {
        let look = |fds: &mut [libc::pollfd]| match sys::poll_now(fds) {
            Err(Errno(libc::EINVAL)) if call.is_select => select_now(fds),
            found => found,
        };
        let found = if self.has_silent() {
            self.without_silent(fds, look)
        } else {
            look(fds)
        };
        match found {
            Ok(0) => {
                // A call that never sleeps, and began before they were the kernel's.
                let sockets = self.sockets.iter();
                sockets.for_each(|(_, socket)| socket.core().recall_from_descendants());
                None
            }
            Err(_) if call.is_last_after_signal() => None,
            Ok(_) if call.is_last_after_signal() && !fds.iter().any(is_ready) => None,
            Ok(mut count) => {
                for (index, socket) in self.sockets.iter() {
                    if socket.core().is_full() && fds[*index].revents != 0 {
                        fds[*index].revents &= !(events::OUT as c_short);
                        count -= usize::from(fds[*index].revents == 0);
                    }
                    if u32::from(fds[*index].revents.cast_unsigned()) & !events::OUT != 0 {
                        let kernel_socket = &socket.core().kernel_socket;
                        kernel_socket.readable_hint.store(true, Ordering::Relaxed);
                    }
                }
                (count > 0).then_some(MuxOutcome::Done(count))
            }
            Err(errno) => Some(MuxOutcome::Fail(errno)),
        }
    }
}

/// What a socket is ready for at the moment.
fn now<S: Stack>(socket: S) -> u32 {
    socket.core().readiness.now()
}

/// What a call wants to know of a descriptor.
fn wanted(polled: &libc::pollfd) -> u32 {
    u32::from(polled.events.cast_unsigned()) | events::ALWAYS
}

/// Whether there is more to say of a descriptor than that it is none.
fn is_ready(polled: &libc::pollfd) -> bool {
    polled.revents & !libc::POLLNVAL != 0
}
