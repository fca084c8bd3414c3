//! The calls of `epoll(7)` on sets with sockets of ours in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use dev_core::Backend;
use libc::{c_int, epoll_event};

use crate::engine::{Engine, Object};
use crate::mux::call::{MuxCall, MuxOutcome, ROUNDS_PER_ATTEMPT, Step};
use crate::mux::epoll::{EpollSet, Registration, key};
use crate::mux::eviction;
use crate::mux::unshared::is_unshared;
use crate::sockets::reason::Reason;
use crate::sockets::sleep::Sleep;
use crate::sys::{self, Errno};

impl<B: Backend> Engine<B> {
    /// The kernel has done an `epoll_ctl(2)`; follow it. `event`: what was given, if anything was.
    pub fn epoll_changed(
        &self,
        epfd: c_int,
        operation: c_int,
        fd: c_int,
        event: Option<epoll_event>,
    ) {
        match (self.look_up(fd), operation) {
            (Some(Object::Epoll(inner)), libc::EPOLL_CTL_ADD) => {
                // The outer set is the kernel's: it cannot see what is ready in user space.
                inner.leave_sockets_to_kernel(self, Reason::NestedEpoll);
            }
            (Some(Object::Udp(socket)), libc::EPOLL_CTL_ADD) => {
                let Some(set) = self.epoll_set(epfd) else {
                    // Nobody would tell the kernel's set of what comes past it.
                    self.leave_to_kernel(socket, Reason::NestedEpoll);
                    return;
                };
                if set.nested.load(Ordering::Relaxed) {
                    self.leave_to_kernel(socket, Reason::NestedEpoll);
                }
                if let Some(event) = event {
                    let registration = Arc::new(Registration {
                        set,
                        socket,
                        fd,
                        events: AtomicU32::new(event.events),
                        data: AtomicU64::new(event.u64),
                        queued: AtomicBool::new(false),
                        disabled: AtomicBool::new(false),
                        removed: AtomicBool::new(false),
                    });
                    set.note_one_shot(event.events);
                    // One that left the kernel's set past every hook.
                    set.remove(key(socket, fd));
                    let added = Arc::clone(&registration);
                    set.members().insert(key(socket, fd), added, event.u64);
                    socket.readiness.add_watcher(Arc::clone(&registration));
                    registration.interfaces_changed();
                }
            }
            (Some(Object::Udp(socket)), libc::EPOLL_CTL_MOD) => {
                if let Some(event) = event
                    && let Some(Object::Epoll(set)) = self.look_up(epfd)
                    && let Some(registration) = set.change(key(socket, fd), event)
                {
                    registration.armed();
                }
            }
            (Some(Object::Udp(socket)), libc::EPOLL_CTL_DEL) => {
                if let Some(Object::Epoll(set)) = self.look_up(epfd) {
                    set.remove(key(socket, fd));
                }
            }
            _ => {}
        }
    }

    /// The set behind an epoll descriptor, made if it was the kernel's alone so far.
    fn epoll_set(&self, epfd: c_int) -> Option<&'static EpollSet<B>> {
        let _control = self.control();
        if let Some(object) = self.look_up(epfd) {
            return match object {
                Object::Epoll(set) => Some(set),
                Object::Udp(_) => None,
            };
        }
        if !eviction::prepare() {
            return None;
        }
        let object = self.epolls.take(|| Object::Epoll(EpollSet::new()));
        let Object::Epoll(set) = object else {
            return None;
        };
        set.epfd.store(epfd, Ordering::Relaxed);
        set.inode.store(sys::inode(epfd), Ordering::Relaxed);
        set.descriptors.store(1, Ordering::Relaxed);
        if self.table.insert(epfd, object).is_err() {
            self.epolls.give(object);
            return None;
        }
        if is_unshared(epfd) {
            return Some(set);
        }
        // The descriptor may have been copied while the set was the kernel's alone.
        let others = sys::other_epolls(epfd);
        for copy in others.copies {
            // What the table still says of the number is out of date.
            self.forget(copy);
            if self.table.insert(copy, object).is_ok() {
                set.descriptor_added();
            }
        }
        set.nested.store(others.contain_it, Ordering::Relaxed);
        Some(set)
    }

    /// One attempt at an `epoll_wait(2)` on a set with sockets of ours in it.
    pub fn epoll_wait(
        &self,
        set: &'static EpollSet<B>,
        call: &mut MuxCall,
        events: &mut [epoll_event],
    ) -> MuxOutcome {
        set.refresh_interfaces();
        if set.interfaces.is_empty() {
            call.has_nothing_to_poll();
        }
        for _ in 0..ROUNDS_PER_ATTEMPT {
            let count = set.ready_events(events, self.settings().select_skip_os);
            if count > 0 {
                return MuxOutcome::Done(count);
            }
            let received = call.receive_from(&set.interfaces);
            if received {
                let count = set.ready_events(events, self.settings().select_skip_os);
                if count > 0 {
                    return MuxOutcome::Done(count);
                }
            }
            if call.asks_kernel() {
                match set.kernel_events(events) {
                    Ok(0) => {}
                    Ok(count) => return MuxOutcome::Done(count),
                    Err(_) if call.is_last_after_signal() => {}
                    Err(errno) => return MuxOutcome::Fail(errno),
                }
            }
            match call.next_step(received) {
                Step::Poll => {}
                Step::TimedOut => return MuxOutcome::Done(0),
                Step::Interrupted => return MuxOutcome::Fail(Errno(libc::EINTR)),
                Step::Sleep => return self.epoll_sleep(set, call),
            }
        }
        MuxOutcome::Again
    }

    #[cold]
    fn epoll_sleep(&self, set: &'static EpollSet<B>, call: &mut MuxCall) -> MuxOutcome {
        let mut sleep = Sleep::new(call.deadline_nsec);
        sleep.watch(set.epfd.load(Ordering::Relaxed), libc::POLLIN);
        sleep.watch_set(&set.waiters, &set.interfaces);
        set.interfaces.poll();
        if !set.ready().is_empty() || !set.knows_interfaces() {
            sleep.end();
            return MuxOutcome::Again;
        }
        call.ask_kernel_next();
        MuxOutcome::Sleep(sleep)
    }
}
