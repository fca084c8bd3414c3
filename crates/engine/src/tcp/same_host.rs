//! Connections within this host, beside which two processes share memory (`VMA_SHM`).
//!
//! The kernel's socket stays connected, and all but octets is its own: addresses, options, the end.
//! Until both rings are open, octets go through it, too, but in calls that are made here, which
//! count them; none of these waits in the kernel. With both open the kernel's socket has nothing to
//! say, and is silent. Rings are opened once: whatever is not for them gives the connection to the
//! kernel for good (`leaving.rs`).

mod leaving;
mod meeting;
mod receive;
mod send;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use links::family::canonical;
use links::reason::Reason;

use libc::c_int;
use shm::{Direction, Place};
use sys::Errno;

use crate::sockets::host::Host;
use crate::sockets::peers::PeerRequest;
use crate::sockets::stack::Stack;
use crate::tcp::application::Amount;
use crate::tcp::call::{StreamCall, StreamOutcome};
use crate::tcp::in_kernel::Answer;
use crate::tcp::offload::client_rule;
use crate::tcp::options::may_be_local;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::local::{Local, Stage, Step};

/// Calls after which the peer is looked for: short connections pay nothing for that.
const CALLS_UNTIL_ASKED: u32 = 12;
/// Calls without a peer, and how long, after which there will be none.
const CALLS_MAX: u32 = 100;
const PATIENCE_NSEC: u64 = 50_000_000;

impl<S: TcpStack> TcpSocket<S> {
    /// Whether the connection is one within this host that is not the kernel's for good.
    #[inline]
    pub(crate) fn is_local(&self) -> bool {
        self.is_local.load(Ordering::Relaxed)
    }

    /// A connection of the kernel's to `peer` is about to begin, or just has: it may come to share
    /// memory. `false`: it cannot. No lock may be held.
    pub(crate) fn begin_local(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        peer: SocketAddr,
        device: u32,
    ) -> bool {
        let is_possible = host.settings().shares_memory
            && device == 0
            && host.refusal().is_none()
            && client_rule(host.rules(), peer, None).is_none()
            && is_of_host(host, peer)
            && may_be_local(&self.options_set());
        if !is_possible {
            return false;
        }
        let _control = host.control();
        let is_new = host.is_behind(fd, self) && self.reason() == Reason::NotBound;
        if !is_new || !self.set_reason_about(Reason::SameHost, None, "") {
            return false;
        }
        *self.role.lock() = Role::Local(Box::new(Local::new()));
        self.is_local.store(true, Ordering::Relaxed);
        host.peers.want();
        host.count_reason(Reason::SameHost);
        true
    }

    /// What an `ioctl(2)` asks for. `None`: the kernel knows.
    pub(super) fn amount_of(local: &mut Local<S>, amount: Amount) -> Option<usize> {
        let Stage::Shared(rings) = &mut local.stage else {
            return None;
        };
        match amount {
            Amount::Readable => match rings.place() {
                Ok(Place::Ring(readable)) => Some(readable),
                _ => None,
            },
            Amount::Unacknowledged if rings.out.is_open() => {
                let unread = rings.ours().and_then(|ours| rings.out.unread(ours));
                unread.ok().and_then(|unread| usize::try_from(unread).ok())
            }
            Amount::Unacknowledged | Amount::Unsent | Amount::AtMark => None,
        }
    }

    /// One attempt at a call. `None`: the connection is no such one.
    fn call_locally(
        &'static self,
        host: &Host<S>,
        call: &mut StreamCall,
        attempt: impl FnOnce(&mut Local<S>, &mut StreamCall) -> Step<StreamOutcome>,
    ) -> Option<Answer> {
        let mut role = self.role.lock();
        let Role::Local(local) = &mut *role else {
            return None;
        };
        if self.generation() != call.generation {
            return Some(Answer::Over(StreamOutcome::Fail(Errno(libc::EBADF))));
        }
        let step = match self.count_local_call(local) {
            None => attempt(local, call),
            Some(reason) => Step::Leave(reason),
        };
        let are_open = local.are_open();
        drop(role);
        self.follow_rings(host, are_open);
        Some(match step {
            Step::Go(outcome) => Answer::Over(outcome),
            Step::Nothing => Answer::Nothing,
            Step::Again => Answer::Here,
            Step::Leave(reason) => {
                self.leave_rings(host, reason);
                Answer::Over(match call.done {
                    0 if self.is_reset.swap(false, Ordering::Relaxed) => {
                        StreamOutcome::Fail(Errno(libc::ECONNRESET))
                    }
                    _ => call.handed_over(),
                })
            }
        })
    }

    /// Counts a call; asks for the peer when it is time, and gives up. Returns why the
    /// connection is the kernel's then. Under the socket's lock.
    fn count_local_call(&'static self, local: &mut Local<S>) -> Option<Reason> {
        if let Stage::Shared(rings) = &mut local.stage {
            rings.open();
            return None;
        }
        local.calls += 1;
        match &local.stage {
            Stage::Begun if local.calls >= CALLS_UNTIL_ASKED => {
                local.stage = Stage::Asked(sys::tick_nsec());
                let request = PeerRequest::Find(S::from(self), self.generation());
                self.globals.peers.ask(request);
            }
            Stage::Asked(since) | Stage::Announced(since, _)
                if local.calls > CALLS_MAX
                    && sys::tick_nsec().saturating_sub(*since) > PATIENCE_NSEC =>
            {
                return Some(Reason::NoSharedMemory);
            }
            _ => {}
        }
        None
    }

    /// The kernel's socket has nothing to say while both rings are open. To be called after every
    /// change. No lock may be held.
    #[inline]
    fn follow_rings(&'static self, host: &Host<S>, are_open: bool) {
        if are_open && !self.is_silent() {
            self.rings_are_open(host);
        }
    }

    #[cold]
    fn rings_are_open(&'static self, host: &Host<S>) {
        let _control = host.control();
        let ready = {
            let mut role = self.role.lock();
            match &mut *role {
                Role::Local(local) if local.are_open() => local.look(&self.readiness),
                _ => return,
            }
        };
        if self.is_silent() {
            return;
        }
        self.silence(true);
        self.set_reason_about(Reason::Offloaded, None, "shared memory");
        host.count_reason(Reason::Offloaded);
        let fd = self.fd();
        if let (Ok(Some(local)), Ok(Some(peer))) = (sys::local_address(fd), sys::peer_address(fd)) {
            let counters = self.counters();
            counters.local.set(canonical(local));
            counters.peer.set(canonical(peer));
        }
        log::debug!("fd {fd}: through memory that the peer shares");
        host.socket_event(Reason::Offloaded, fd, "shared memory");
        self.readiness.announce(ready);
    }

    /// A peer has news of the connection. No lock may be held.
    pub(crate) fn peer_has_news(&'static self, host: &Host<S>, generation: u32) {
        let (ready, are_open, is_over) = {
            let mut role = self.role.lock();
            let Role::Local(local) = &mut *role else {
                return;
            };
            if self.generation() != generation {
                return;
            }
            let ready = local.look(&self.readiness);
            let Stage::Shared(rings) = &mut local.stage else {
                return;
            };
            rings.open();
            let is_wanted = rings.ours().is_ok_and(Direction::is_kernel_wanted);
            let is_over = rings.incoming.is_over() || is_wanted;
            (ready, rings.are_open(), is_over)
        };
        if is_over {
            return self.leave_rings(host, Reason::ShutDown);
        }
        self.follow_rings(host, are_open);
        self.readiness.announce(ready);
    }
}

impl From<Answer> for Step<StreamOutcome> {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Here => Self::Again,
            Answer::Over(outcome) => Self::Go(outcome),
            Answer::Nothing => Self::Nothing,
        }
    }
}

/// Whether packets to an address stay on this host.
fn is_of_host<S: Stack>(host: &Host<S>, peer: SocketAddr) -> bool {
    let address = canonical(peer).ip();
    address.is_loopback()
        || host
            .links
            .facts()
            .iter()
            .any(|it| it.addresses.contains(&address))
}
