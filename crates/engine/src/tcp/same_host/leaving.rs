//! The way back: the connection is the kernel's from here on, with every octet in its order.
//!
//! Each process closes the ring that it writes, and asks the other to do so: what is unread goes
//! through the kernel then. The peer's internal thread answers, whatever its program does.

use std::sync::atomic::Ordering;
use std::time::Duration;

use links::reason::Reason;

use libc::c_int;
use shm::{Hostile, Message, Place};
use sys::streams;

use crate::sockets::host::Host;
use crate::sockets::peers::PeerRequest;
use crate::sockets::stack::Stack;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::local::{Local, Rings, Stage};

/// How long the peer is waited for, which may be stopped. What it has written then comes through
/// the kernel when it goes on.
const PATIENCE_NSEC: u64 = 100_000_000;
const LOOK_INTERVAL: Duration = Duration::from_micros(50);
/// How long the kernel's socket is waited for: it was empty when the ring was opened.
const ROOM_LOOKS_MAX: u32 = 100;
const ROOM_INTERVAL: Duration = Duration::from_millis(10);

/// What became of the other direction.
enum Incoming {
    /// The kernel has it.
    Kernels,
    /// The peer has not closed it yet.
    IsOpen,
    /// The peer has ended, and there are octets that nobody has read.
    IsLost,
    /// The same, but of those that were written for it.
    IsUnread,
}

impl<S: TcpStack> TcpSocket<S> {
    /// The connection is the kernel's for good. No lock may be held.
    #[cold]
    pub(super) fn leave_rings(&'static self, host: &Host<S>, reason: Reason) {
        host.leave_to_kernel(self, reason);
    }

    /// Gives the connection to the kernel, if it is one within this host. Under the control lock.
    pub(in crate::tcp) fn hand_over_local(&'static self) -> bool {
        if !self.is_local() {
            return false;
        }
        self.commit();
        let begun = sys::now_nsec();
        let mut has_asked = false;
        loop {
            let mut role = self.role.lock();
            let Role::Local(local) = &mut *role else {
                return true;
            };
            let is_patient = sys::now_nsec().saturating_sub(begun) < PATIENCE_NSEC;
            let fd = self.fd();
            let mut incoming = local.after_end(fd);
            if let Incoming::Kernels = incoming {
                incoming = local.close(fd, !has_asked);
                has_asked = true;
            }
            match incoming {
                Incoming::IsOpen if is_patient => {
                    drop(role);
                    std::thread::sleep(LOOK_INTERVAL);
                    continue;
                }
                Incoming::Kernels => {}
                Incoming::IsOpen => {
                    let _ = local.close(fd, !has_asked);
                    log::debug!(
                        "fd {fd}: the peer does not answer: what it has written comes later"
                    );
                }
                Incoming::IsLost | Incoming::IsUnread => {
                    log::debug!("fd {fd}: the connection is reset: its peer has ended");
                    reset_at_close(fd);
                    let _ = streams::shutdown(fd, libc::SHUT_RDWR);
                    self.is_reset
                        .store(!local.has_told_reset(), Ordering::Relaxed);
                }
            }
            self.end_local(local);
            *role = Role::None;
            drop(role);
            self.is_local.store(false, Ordering::Relaxed);
            self.clear_readiness();
            self.silence(false);
            return true;
        }
    }

    /// The last descriptor is about to be closed. Under the control lock.
    pub(in crate::tcp) fn close_local(&self) {
        let mut role = self.role.lock();
        let Role::Local(local) = &mut *role else {
            return;
        };
        let fd = self.fd();
        if let Stage::Shared(rings) = &mut local.stage {
            // As in the kernel's close, what nobody has read resets the connection.
            let is_unread = matches!(rings.place(), Ok(Place::Ring(1..)));
            let resets = is_unread && self.has_own_number();
            if resets {
                // First: the peer sends nothing into the reset, whose error is its program's.
                reset_at_close(fd);
                rings.refuse();
            }
            rings.close_ours(fd);
            if !resets {
                rings.ask_for_kernel();
            }
        }
        self.end_local(local);
        *role = Role::None;
        self.is_local.store(false, Ordering::Relaxed);
    }

    /// The connection needs no memory any more.
    fn end_local(&self, local: &mut Local<S>) {
        match std::mem::replace(&mut local.stage, Stage::Begun) {
            Stage::Shared(rings) => rings.peer.leave(rings.slot),
            Stage::Announced(_, key) => {
                self.globals.peers.ask(PeerRequest::Forget(key));
            }
            Stage::Begun | Stage::Asked(_) => {}
        }
    }

    /// In the internal thread: the peer is about to give the connection to the kernel.
    pub(crate) fn peer_wants_kernel(&'static self, host: &Host<S>, generation: u32) {
        // First and without the control lock, whose holder may wait for the peer in its turn.
        if let Role::Local(local) = &mut *self.role.lock()
            && let Stage::Shared(rings) = &mut local.stage
            && self.generation() == generation
        {
            rings.close_ours(self.fd());
        } else {
            return;
        }
        self.leave_rings(host, Reason::ShutDown);
    }

    /// In the internal thread: the peer has ended.
    pub(crate) fn peer_has_ended(&'static self, host: &Host<S>, generation: u32) {
        let ready = match &mut *self.role.lock() {
            Role::Local(local) if self.generation() == generation => local.look(&self.readiness),
            _ => return,
        };
        let control = host.control();
        // The kernel's socket tells of it.
        if self.is_silent() && self.is_local() {
            self.silence(false);
        }
        drop(control);
        self.readiness.announce(ready);
    }
}

impl<S: Stack> Local<S> {
    /// Whether the peer has ended with octets that it has not read. To the kernel it has read all,
    /// and it would say that the stream has ended. [`Incoming::Kernels`]: it has not, or the kernel
    /// says what is to be said.
    fn after_end(&mut self, fd: c_int) -> Incoming {
        let Stage::Shared(rings) = &mut self.stage else {
            return Incoming::Kernels;
        };
        let is_unread = rings.out.is_open()
            && rings
                .ours()
                .is_ok_and(|ours| rings.out.unread(ours).is_ok_and(|it| it > 0));
        // A ring that is still open nobody has closed.
        let has_ended = || sys::poll_one(fd, libc::POLLRDHUP).is_ok_and(|ready| ready != 0);
        if !is_unread || !has_ended() || !matches!(rings.place(), Ok(Place::Ring(_))) {
            return Incoming::Kernels;
        }
        // The descriptors of a process are closed one after the other.
        match rings.peer.is_gone() || has_hung_up(rings.peer.channel().raw_fd()) {
            true => Incoming::IsUnread,
            false => Incoming::IsOpen,
        }
    }

    /// Whether a call has said that the connection was reset.
    fn has_told_reset(&self) -> bool {
        matches!(&self.stage, Stage::Shared(rings) if rings.is_reset)
    }

    /// Closes what this process writes, and asks the peer to.
    fn close(&mut self, fd: c_int, asks: bool) -> Incoming {
        let Stage::Shared(rings) = &mut self.stage else {
            return Incoming::Kernels;
        };
        rings.close_ours(fd);
        if asks {
            rings.ask_for_kernel();
        }
        match rings.place() {
            Ok(Place::Ring(0)) if rings.peer.is_gone() => Incoming::Kernels,
            Ok(Place::Ring(_)) if rings.peer.is_gone() => Incoming::IsLost,
            Ok(Place::Ring(_)) => {
                if asks {
                    let message = Message::Close { slot: rings.slot };
                    let _ = rings.peer.channel().send(&message, &[]);
                }
                Incoming::IsOpen
            }
            Ok(Place::Kernel) => Incoming::Kernels,
            Err(Hostile) => Incoming::IsLost,
        }
    }
}

impl<S: Stack> Rings<S> {
    /// Closes the ring that this process writes. What is unread goes through the kernel.
    fn close_ours(&mut self, fd: c_int) {
        let Ok(memory) = self.peer.slot(self.slot) else {
            return;
        };
        let writer = self.peer.side();
        if !self.out.is_open() {
            return;
        }
        let direction = memory.direction(writer);
        let unread = self.out.close(direction).unwrap_or((0, 0));
        // What nobody reads would fetch the error of a reset, which is the program's.
        let (mut from, mut left) = match direction.is_refused() {
            true => (0, 0),
            false => unread,
        };
        let mut piece = [0; 4096];
        let mut looks = 0;
        while left > 0 && looks < ROOM_LOOKS_MAX {
            let (at, len) = self.out.unread_piece(from);
            let len = len.min(piece.len()).min(left as usize);
            let octets = &mut piece[..len];
            memory.read(writer, at, octets);
            match streams::send(fd, octets, 0) {
                Ok(count) => {
                    from += count as u64;
                    left -= count as u64;
                    self.out.note_sent(count);
                }
                Err(sys::Errno(libc::EAGAIN)) => {
                    looks += 1;
                    let mut polled = [libc::pollfd {
                        fd,
                        events: libc::POLLOUT,
                        revents: 0,
                    }];
                    sys::wait(&mut polled, ROOM_INTERVAL);
                }
                // The peer has ended, and nobody reads them.
                Err(_) => break,
            }
        }
        self.peer.ring(self.slot);
    }

    /// This process reads nothing any more.
    fn refuse(&self) {
        if let Ok(memory) = self.memory() {
            memory.direction(self.side().other()).refuse();
            self.peer.ring(self.slot);
        }
    }

    /// Asks the peer to close the ring that it writes.
    fn ask_for_kernel(&self) {
        if let Ok(memory) = self.memory() {
            memory.direction(self.side().other()).ask_for_kernel();
            self.peer.ring(self.slot);
        }
    }
}

/// Whether nobody has the other end of a socket any more.
fn has_hung_up(fd: c_int) -> bool {
    sys::poll_one(fd, 0).is_ok_and(|ready| ready & libc::POLLHUP != 0)
}

/// The end of the kernel's socket resets its connection.
fn reset_at_close(fd: c_int) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let _ = streams::set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
}
