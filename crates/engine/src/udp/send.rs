//! Sending.

mod paced;
mod queue;

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use dev_core::LockGuard;
use libc::c_int;
use links::doorbell::{Follows, Notify};
use links::interface::sending::Transmitted;
use links::reason::Reason;
use sys::Errno;

use crate::sockets::exception::Request;
use crate::sockets::host::Host;
use crate::sockets::message::{DUMMY_SEND, Message};
use crate::udp::destination::{Asked, Destination, SendState, Way};

use crate::udp::send_options::{Overrides, SendControl};
use crate::udp::socket::{UdpSocket, UdpStack};
pub use paced::{RoomOutcome, SendCall};
use queue::Queued;

/// What became of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// Sent: this many bytes.
    Done(usize),
    /// Failed.
    Fail(Errno),
    /// Nothing was sent, for there is no room: `UdpSocket::wait_for_room`, then call again.
    Full,
    /// The call is for the kernel's socket.
    Kernel(Reason),
}

/// Flags that change nothing on the accelerated path: it never blocks, raises no signal, and
/// confirms no neighbour.
const HARMLESS_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;

impl<S: UdpStack> UdpSocket<S> {
    /// Sends a datagram past the kernel if that is possible. `fd` is the descriptor that the socket
    /// was found behind.
    #[inline]
    pub fn send(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        message: &Message<'_>,
        flags: c_int,
        follows: Follows,
    ) -> SendOutcome {
        let outcome = self.send_past_kernel(host, fd, message, flags, follows);
        let SendOutcome::Kernel(reason) = outcome else {
            return outcome;
        };
        // What was sent before leaves before.
        host.links.start_waiting();
        if reason == Reason::RingFull && host.settings().full_ring_fails && !self.may_wait(flags) {
            return SendOutcome::Fail(Errno(libc::EAGAIN));
        }
        outcome
    }

    #[cold]
    pub(super) fn may_wait(&self, flags: c_int) -> bool {
        flags & libc::MSG_DONTWAIT == 0 && !self.kernel_socket.nonblocking.load(Ordering::Relaxed)
    }

    /// Whether a send call is the kernel's, whatever the message, and changes nothing for the
    /// library. What was sent before leaves before.
    #[inline]
    pub fn is_sent_by_kernel(&self, host: &Host<S>) -> bool {
        // A first send binds the socket.
        let is_kernels = !self.sends_past_kernel() && self.reason() != Reason::NotBound;
        if is_kernels {
            host.links.start_waiting();
        }
        is_kernels
    }

    #[inline]
    fn send_past_kernel(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        message: &Message<'_>,
        flags: c_int,
        follows: Follows,
    ) -> SendOutcome {
        if flags & DUMMY_SEND != 0 {
            return self.send_dummy(message);
        }
        if !self.sends_past_kernel() {
            return SendOutcome::Kernel(self.reason());
        }
        if flags & libc::MSG_MORE != 0 {
            // The kernel keeps the part until the rest comes, so the rest must come to the kernel,
            // too.
            host.leave_to_kernel_for(self.into(), Request::MoreToCome);
        }
        if flags & !HARMLESS_FLAGS != 0 {
            return SendOutcome::Kernel(Reason::Message);
        }
        if message.has_control() {
            return self.send_with_control(host, fd, message, follows);
        }
        self.send_message(host, fd, message, follows)
    }

    #[cold]
    fn send_with_control(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        message: &Message<'_>,
        follows: Follows,
    ) -> SendOutcome {
        match message.control().as_ref().and_then(SendControl::parse) {
            Some(control) => self.send_any(host, fd, message, follows, Some(control)),
            None => SendOutcome::Kernel(Reason::Message),
        }
    }

    /// Mostly a message is one buffer, and goes to an address of IPv4 or to the socket's peer.
    #[inline(always)]
    fn send_message(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        message: &Message<'_>,
        follows: Follows,
    ) -> SendOutcome {
        let name = message.v4_destination();
        let is_simple = name.is_some() || message.has_no_name();
        let (true, Some(payload)) = (is_simple, message.only_payload()) else {
            return self.send_any(host, fd, message, follows, None);
        };
        let parts = (payload.len(), std::iter::once(payload));
        self.send_to(host, fd, name.map(Into::into), parts, follows, None)
    }

    /// The same whatever it is.
    #[inline(never)]
    fn send_any(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        message: &Message<'_>,
        follows: Follows,
        control: Option<SendControl>,
    ) -> SendOutcome {
        let name = match message.destination(self.family()) {
            Ok(name) => name,
            Err(reason) => return SendOutcome::Kernel(reason),
        };
        let Ok(payload) = message.payload() else {
            return SendOutcome::Kernel(Reason::Answered);
        };
        self.send_to(host, fd, name, payload, follows, control)
    }

    /// Sends a payload of so many bytes to an address, or to the socket's peer.
    #[inline(always)]
    fn send_to<'payload>(
        &'static self,
        host: &Host<S>,
        fd: c_int,
        name: Option<SocketAddr>,
        (len, parts): (usize, impl Iterator<Item = &'payload [u8]>),
        follows: Follows,
        control: Option<SendControl>,
    ) -> SendOutcome {
        let overrides = control.map(|control| control.overrides);
        let overrides = overrides.filter(|overrides| *overrides != Overrides::default());
        let mut resolved = false;
        loop {
            let mut send = self.send.lock();
            // Under this lock the object does not begin another life: what it has belongs to this
            // descriptor, or the descriptor has been closed.
            if !host.is_behind(fd, self) {
                return SendOutcome::Kernel(Reason::Answered);
            }
            // Not by `or`, which copies both.
            let ((Some(address), _) | (None, Some(address))) = (name, send.peer) else {
                return SendOutcome::Kernel(Reason::Answered);
            };
            if send.may_have_error && send.tick_has_passed() && self.kernel_has_error() {
                // The kernel's send reports it.
                return SendOutcome::Kernel(Reason::Answered);
            }
            if address.ip().is_multicast() {
                host.follow_members_now_and_then();
            }
            if send.migration.count_call() {
                drop(send);
                self.consider_moving(host);
                continue;
            }
            let identification = send.next_identification();
            let found = match overrides {
                None => send.find(&address),
                Some(overrides) => send.find_overridden(address, overrides),
            };
            if let Some(destination) = found {
                let queued = destination.queue(identification, (len, parts), control);
                if let Queued::Paced(sender, packets, at) = queued {
                    return self.conclude_paced(host, send, (sender, packets, at), len);
                }
                return self.conclude_send(host, send, queued, len, follows);
            }
            if resolved {
                // The network changes faster than we can ask.
                return SendOutcome::Kernel(Reason::Route);
            }
            resolved = true;
            if let Err(reason) = self.resolve(host, send, address, overrides) {
                return SendOutcome::Kernel(reason);
            }
        }
    }

    /// Counts what was sent, and tells the device.
    #[inline(always)]
    fn conclude_send(
        &'static self,
        host: &Host<S>,
        mut send: LockGuard<'_, SendState<S>>,
        queued: Queued<S>,
        len: usize,
        follows: Follows,
    ) -> SendOutcome {
        let (sender, datagrams, needs_kick) = match queued {
            Queued::By(sender, datagrams, Transmitted::Sent { needs_kick }) => {
                (sender, datagrams, needs_kick)
            }
            Queued::By(_, _, Transmitted::Full) => {
                self.counters().tx_eagain.add(1);
                return SendOutcome::Kernel(Reason::RingFull);
            }
            Queued::By(_, _, Transmitted::Lost) => {
                self.counters().tx_errors.add(1);
                drop(send);
                host.device_lost();
                return SendOutcome::Kernel(Reason::DeviceLost);
            }
            Queued::By(_, _, Transmitted::LargerThanFrame) => {
                return SendOutcome::Kernel(Reason::LargerThanFrame);
            }
            Queued::TooLarge | Queued::Paced(..) => return SendOutcome::Kernel(Reason::TooLarge),
            Queued::Kernel(reason) => {
                let look = send.counts_kernel_message();
                drop(send);
                if look {
                    host.follow_network();
                }
                return SendOutcome::Kernel(reason);
            }
        };
        if datagrams > 1 {
            send.skip_identifications(datagrams - 1);
        }
        let counters = self.counters();
        counters.tx_packets.add(datagrams as u64);
        counters.tx_bytes.add(len as u64);
        self.note_thread(&self.sender, &counters.tx_thread);
        drop(send);
        if needs_kick {
            match sender.frame_queued(follows, host.links.is_watched()) {
                Notify::Now => {}
                Notify::Later => host.links.frames_wait(),
                Notify::LaterAndWatch => host.links.watch_senders(),
            }
        }
        SendOutcome::Done(len)
    }

    /// Moves the socket to the rings of the calling thread if that goes on using it.
    #[cold]
    fn consider_moving(&self, host: &Host<S>) {
        let moves = self.send.lock().moves_to_caller(self.number());
        if moves {
            self.counters().tx_migrations.add_contended(1);
            // What was sent before leaves before.
            host.links.start_waiting();
        }
    }

    /// Whether the kernel's socket holds an error, such as that of an ICMP message about the peer.
    #[cold]
    fn kernel_has_error(&self) -> bool {
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        sys::poll_one(fd, 0).is_ok_and(|ready| ready & libc::POLLERR != 0)
    }

    /// Finds out where datagrams to an address go, and remembers it unless it holds for a moment
    /// only.
    #[cold]
    pub(super) fn resolve(
        &self,
        host: &Host<S>,
        mut send: LockGuard<'_, SendState<S>>,
        address: SocketAddr,
        overrides: Option<Overrides>,
    ) -> Result<(), Reason> {
        let (local, rules, epoch) = (send.local, send.rules, send.epoch());
        let (mut headers, options) = (send.headers(), send.options());
        let (versions, group_interface) = (send.versions, send.group_interface);
        let packet_len_max = send.packet_len_max;
        let user = send.user(self.number());
        drop(send);
        let Some(local) = local else {
            return Ok(());
        };
        let overrides = overrides.unwrap_or_default();
        let asked = Asked {
            local,
            versions,
            address,
            rules,
            options,
            group_interface,
            packet_len_max,
            overrides,
            user,
        };
        let fd = self.kernel_socket.fd.load(Ordering::Relaxed);
        let destination = Destination::resolve(host, fd, &asked, &mut headers);
        if matches!(destination.way, Way::Kernel(Reason::Opening)) {
            return Err(Reason::Opening);
        }
        self.send
            .lock()
            .remember(address, overrides, destination, headers, epoch);
        Ok(())
    }
}
