//! How a thread sleeps: what it watches, until when, and who can wake it.
//!
//! The sleep itself is the application's own `ppoll(2)` in the hook, outside of every lock and Rust scope with a destructor,
//! because the thread may be cancelled in it. If that happens, the registration stays behind: the waiter's eventfd is
//! written to now and then and read by nobody.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use libc::{c_int, c_short};
use ring::Backend;

use crate::interface::{Interface, InterfaceSet};
use crate::interrupt;
use crate::mux::epoll::EpollSet;
use crate::sys;
use crate::udp::UdpSocket;
use crate::wait::Waiter;

/// Descriptors that fit without further memory.
const INLINE_MAX: usize = 16;

/// A sleep that is prepared; pass [`Sleep::fds`] to `ppoll(2)`, then call [`Sleep::end`].
#[derive(Debug)]
pub struct Sleep<B: Backend> {
    fds: ManuallyDrop<Vec<libc::pollfd>>,
    deadline_nsec: Option<u64>,
    waiter: ManuallyDrop<Arc<Waiter>>,
    registered: ManuallyDrop<Vec<Registered<B>>>,
}

#[derive(Debug)]
enum Registered<B: Backend> {
    Socket(&'static UdpSocket<B>),
    Epoll(&'static EpollSet<B>),
}

impl<B: Backend> Sleep<B> {
    /// A sleep until `deadline_nsec` on the monotonic clock, or without end. `None`: no descriptor for waking is to be had.
    pub(crate) fn new(deadline_nsec: Option<u64>) -> Option<Self> {
        let waiter = Waiter::take()?;
        let mut fds = Vec::with_capacity(INLINE_MAX);
        fds.push(libc::pollfd {
            fd: waiter.fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        let mut sleep = Self {
            fds: ManuallyDrop::new(fds),
            deadline_nsec,
            waiter: ManuallyDrop::new(waiter),
            registered: ManuallyDrop::new(Vec::new()),
        };
        if let Some(fd) = interrupt::wakes_all() {
            sleep.watch(fd, libc::POLLIN);
        }
        Some(sleep)
    }

    /// Also wakes when the kernel reports `events` of a descriptor.
    pub(crate) fn watch(&mut self, fd: c_int, events: c_short) {
        self.fds.push(libc::pollfd {
            fd,
            events,
            revents: 0,
        });
    }

    /// Also wakes when something happens to a socket. The caller looks at it once more before it sleeps.
    pub(crate) fn watch_socket(&mut self, socket: &'static UdpSocket<B>) {
        socket.waiters.add(&self.waiter);
        self.registered.push(Registered::Socket(socket));
        self.watch_interfaces(&socket.interfaces);
    }

    /// Also wakes when something happens to an epoll set. The caller looks at it once more before it sleeps.
    pub(crate) fn watch_epoll(&mut self, set: &'static EpollSet<B>) {
        set.waiters.add(&self.waiter);
        self.registered.push(Registered::Epoll(set));
        self.watch_interfaces(&set.interfaces);
    }

    fn watch_interfaces(&mut self, interfaces: &InterfaceSet<B>) {
        for &fd in interfaces.iter().flat_map(|interface| interface.wait_fds()) {
            if !self.fds.iter().any(|watched| watched.fd == fd) {
                self.watch(fd, libc::POLLIN);
            }
        }
    }

    /// What to watch.
    pub fn fds(&mut self) -> &mut [libc::pollfd] {
        &mut self.fds
    }

    /// How long to sleep from now on; `None` without end.
    pub fn timeout(&self) -> Option<libc::timespec> {
        self.deadline_nsec.map(|deadline| {
            let left = deadline.saturating_sub(sys::now_nsec());
            libc::timespec {
                tv_sec: (left / 1_000_000_000) as libc::time_t,
                tv_nsec: (left % 1_000_000_000) as libc::c_long,
            }
        })
    }

    /// Ends the sleep.
    pub fn end(mut self) {
        for registered in self.registered.drain(..) {
            let interfaces = match registered {
                Registered::Socket(socket) => {
                    socket.waiters.remove(&self.waiter);
                    &socket.interfaces
                }
                Registered::Epoll(set) => {
                    set.waiters.remove(&self.waiter);
                    &set.interfaces
                }
            };
            count_wakeups(&self.fds, interfaces);
        }
        Waiter::give(ManuallyDrop::into_inner(self.waiter));
        drop(ManuallyDrop::into_inner(self.registered));
        drop(ManuallyDrop::into_inner(self.fds));
    }
}

fn count_wakeups<B: Backend>(fds: &[libc::pollfd], interfaces: &InterfaceSet<B>) {
    let woke = |fd: &c_int| {
        fds.iter()
            .any(|polled| polled.fd == *fd && polled.revents != 0)
    };
    let woken = interfaces
        .iter()
        .filter(|interface| interface.wait_fds().iter().any(woke));
    woken.for_each(Interface::count_wakeup);
}
