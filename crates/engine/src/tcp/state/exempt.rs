//! Connections of the kernel's whose segments the steering leaves to it, although all else that
//! reaches their port comes past it.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use links::delivery;
use links::interface::Interface;
use links::internal_thread::InternalThread;
use links::network::{KernelConnection, KernelConnections, Network};

use ::tcp::Flags;
use dev_core::{Flow, Protocol};
use libc::c_int;
use sys::streams;
use wire::tcp::Segment;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::state::exempt_table::{Ends, Table};
use crate::tcp::state::origin::Origin;

/// The connections that are exempt, and what is known of their ends.
pub(in crate::tcp) struct Exempt<S: Stack> {
    /// Made with the first listener, not with the first connection that returns, which the internal
    /// thread may do: a new descriptor has the lowest number until it is moved away, which the
    /// program may expect. `None`: the kernel does not tell.
    kernels: OnceLock<Option<Box<dyn KernelConnections>>>,
    table: Mutex<Table<&'static Interface<S>>>,
    /// How many there are.
    count: AtomicUsize,
    /// The kernel tells of ends. Changes under the control lock.
    follows: AtomicBool,
    openings: Mutex<Vec<Opening<S>>>,
    internal_thread: Arc<InternalThread>,
}

/// A segment that opens a connection, between the ends of one that is exempt.
pub(in crate::tcp) struct Opening<S: Stack> {
    pub(in crate::tcp) listener: S,
    pub(in crate::tcp) generation: u32,
    pub(in crate::tcp) segment: Segment,
    pub(in crate::tcp) origin: Origin,
}

/// More than that are lost: the peer sends them again.
const OPENINGS_MAX: usize = 256;
/// The kernel's clock is not ours.
const MARGIN: Duration = Duration::from_millis(100);

impl<S: Stack> Exempt<S> {
    pub(in crate::tcp) fn new(internal_thread: Arc<InternalThread>) -> Self {
        Self {
            kernels: OnceLock::new(),
            table: Mutex::default(),
            count: AtomicUsize::new(0),
            follows: AtomicBool::new(false),
            openings: Mutex::default(),
            internal_thread,
        }
    }

    /// A socket is about to listen: its connections may become exempt.
    pub(in crate::tcp) fn prepare(&self, network: &dyn Network) {
        self.kernels.get_or_init(|| {
            let opened = network.kernel_connections();
            let told = opened.inspect_err(|error| log::debug!("ends of connections: {error}"));
            told.ok()
        });
    }

    pub(in crate::tcp) fn kernels(&self) -> Option<&dyn KernelConnections> {
        self.kernels.get()?.as_deref()
    }

    /// The kernel has the connection of this flow, at `fd`, and gets its segments from here on if
    /// that takes an exemption. Those that have come meanwhile are the caller's to pass on. Under
    /// the control lock.
    pub(in crate::tcp) fn begin(&self, interface: &'static Interface<S>, flow: &Flow, fd: c_int) {
        let cookie = || {
            let cookie = streams::cookie(fd);
            cookie.map_err(|errno| io::Error::from_raw_os_error(errno.0))
        };
        self.begin_of(interface, flow, cookie);
    }

    /// The same of a connection of the kernel's whose socket has this cookie. Under the control
    /// lock.
    pub(in crate::tcp) fn begin_with(
        &self,
        interface: &'static Interface<S>,
        flow: &Flow,
        cookie: u64,
    ) {
        if lock(&self.table).with_cookie(cookie).is_none() {
            self.begin_of(interface, flow, || Ok(cookie));
        }
    }

    fn begin_of(
        &self,
        interface: &'static Interface<S>,
        flow: &Flow,
        cookie: impl FnOnce() -> io::Result<u64>,
    ) {
        let (Some(peer), Some(kernels)) = (flow.peer, self.kernels()) else {
            return;
        };
        let begun = self.begin_at(interface, flow, || {
            if !self.follows.load(Ordering::Relaxed) {
                kernels.follow(true)?;
                self.follows.store(true, Ordering::Relaxed);
                // From here on it waits for what the kernel tells.
                self.internal_thread.call();
            }
            cookie()
        });
        match begun {
            Ok(Some(cookie)) => {
                self.change(|table| table.add((flow.local, peer), cookie, interface))
            }
            Ok(None) => {}
            Err(error) => log::debug!(
                "{}: segments of {peer} reach the kernel by way of the library: {error}",
                flow.local
            ),
        }
    }

    /// The kernel's connections at a port, as far as it tells.
    pub(in crate::tcp) fn connections_at(&self, port: u16) -> Vec<KernelConnection> {
        let found = self.kernels().map(|kernels| kernels.at_port(port));
        found.and_then(Result::ok).unwrap_or_default()
    }

    fn begin_at(
        &self,
        interface: &'static Interface<S>,
        flow: &Flow,
        cookie: impl FnOnce() -> io::Result<u64>,
    ) -> io::Result<Option<u64>> {
        if !interface.exempt(flow)? {
            return Ok(None);
        }
        let cookie = cookie();
        if cookie.is_err() {
            interface.end_exemption(flow);
        }
        cookie.map(Some)
    }

    /// Whether the socket that listens has to wait for an answer of the kernel's about a segment:
    /// it opens a connection between ends of one that is exempt. Then the caller has the internal
    /// thread called. Under the ring's lock.
    pub(in crate::tcp) fn takes(
        &self,
        (listener, generation): (S, u32),
        segment: &Segment,
        origin: Origin,
    ) -> bool {
        let is_known = self.count.load(Ordering::Relaxed) > 0
            && opens(segment.header.flags)
            && lock(&self.table).contains(&delivery::ends(segment, origin.link_index));
        if !is_known {
            return false;
        }
        let mut openings = lock(&self.openings);
        if openings.len() < OPENINGS_MAX {
            openings.push(Opening {
                listener,
                generation,
                // The peer sends data of its SYN again.
                segment: Segment {
                    payload_len: 0,
                    ..*segment
                },
                origin,
            });
        }
        true
    }

    /// The descriptor by which the kernel tells, while it does.
    pub(in crate::tcp) fn events_fd(&self) -> Option<RawFd> {
        let follows = self.follows.load(Ordering::Relaxed);
        self.kernels()
            .filter(|_| follows)
            .map(KernelConnections::events_fd)
    }

    /// That descriptor is not ours any more.
    pub(in crate::tcp) fn stop_following(&self) {
        self.follows.store(false, Ordering::Relaxed);
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table<&'static Interface<S>>) -> T) -> T {
        let mut table = lock(&self.table);
        let changed = change(&mut table);
        self.count.store(table.len(), Ordering::Relaxed);
        changed
    }

    /// Under the control lock.
    pub(in crate::tcp) fn end(&self, ends: Ends) {
        if let Some(interface) = self.change(|table| table.remove(&ends)) {
            interface.end_exemption(&flow_of(ends));
        }
    }

    /// A socket has ended, or has waited long enough: the connection goes, unless the kernel still
    /// answers for it. Under the control lock.
    fn review(&self, kernels: &dyn KernelConnections, ends: Ends) {
        let link = lock(&self.table).place(&ends).map(|it| it.spec().index);
        let found = kernels.find(ends.0, ends.1, link.unwrap_or(0));
        let waits = found.ok().flatten().and_then(|found| found.waits);
        match waits {
            Some(waits) => {
                let until = now() + waits + MARGIN;
                if let Some(first) = self.change(|table| table.waits(ends, until)) {
                    self.end(first);
                }
            }
            None => self.end(ends),
        }
    }

    /// In the internal thread: takes out what the kernel does not answer for any more. Returns when
    /// to look again, if it does not tell before.
    pub(in crate::tcp) fn look_after(&self, host: &Host<S>) -> Option<Duration> {
        let kernels = self.kernels()?;
        if !self.follows.load(Ordering::Relaxed) {
            return None;
        }
        let mut ended = Vec::new();
        let taken = kernels.take_ended(&mut |cookie| ended.push(cookie));
        let _control = host.control();
        if !matches!(taken, Ok(false)) {
            ended.extend(self.have_ended_unnoticed(kernels));
        }
        let ended = ended.into_iter();
        let ended: Vec<_> = {
            let table = lock(&self.table);
            let of_sockets = ended.filter_map(|cookie| table.with_cookie(cookie));
            of_sockets.chain(table.due(now())).collect()
        };
        ended
            .into_iter()
            .for_each(|ends| self.review(kernels, ends));
        if self.count.load(Ordering::Relaxed) == 0 {
            self.follows.store(false, Ordering::Relaxed);
            let _ = kernels.follow(false);
        }
        let due = lock(&self.table).next_due();
        due.map(|due| due.saturating_since(now()))
    }

    /// The kernel has told of more than it could keep.
    fn have_ended_unnoticed(&self, kernels: &dyn KernelConnections) -> Vec<u64> {
        let ports = lock(&self.table).ports();
        let mut living = HashSet::new();
        for port in ports {
            match kernels.at_port(port) {
                Ok(found) => living.extend(found.iter().map(|it| it.cookie)),
                // They stay for now.
                Err(_) => return Vec::new(),
            }
        }
        lock(&self.table).missing(&living)
    }

    /// Segments that open connections, which the kernel has to be asked about.
    pub(in crate::tcp) fn take_openings(&self) -> Vec<Opening<S>> {
        std::mem::take(&mut *lock(&self.openings))
    }
}

/// Whether a segment opens a connection, as the program that steers them sees it.
pub(in crate::tcp) fn opens(flags: Flags) -> bool {
    flags.contains(Flags::SYN) && !flags.intersects(Flags::ACK | Flags::RST)
}

fn flow_of((local, peer): Ends) -> Flow {
    Flow {
        protocol: Protocol::Tcp,
        local,
        peer: Some(peer),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Stack> fmt::Debug for Exempt<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exempt").finish_non_exhaustive()
    }
}
