//! Sending.

use std::net::SocketAddrV4;
use std::sync::atomic::Ordering;

use libc::c_int;
use vma_config::rules::ProcessRules;

use crate::sockets::doorbell::{Follows, Notify};
use crate::sockets::exception::Request;
use crate::sockets::host::Host;
use crate::sockets::interface::Transmitted;
use crate::sockets::message::Message;
use crate::sockets::reason::Reason;
use crate::sys;
use crate::udp::destination::{Destination, HeaderOptions, Way};
use crate::udp::{UdpSocket, UdpStack};

/// What became of a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// Sent: this many bytes.
    Done(usize),
    /// The call is for the kernel's socket.
    Kernel(Reason),
}

/// Flags that change nothing on the accelerated path: it never blocks, raises no signal, and confirms no neighbour.
const HARMLESS_FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;

impl<S: UdpStack> UdpSocket<S> {
    /// Sends a datagram past the kernel if that is possible. `fd` is the descriptor that the socket was found behind.
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
        if matches!(outcome, SendOutcome::Kernel(_)) {
            // What was sent before leaves before.
            host.links.start_waiting();
        }
        outcome
    }

    /// Whether a send call is the kernel's, whatever the message, and changes nothing for the library. What was sent before leaves
    /// before.
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
        if !self.sends_past_kernel() {
            return SendOutcome::Kernel(self.reason());
        }
        if flags & libc::MSG_MORE != 0 {
            // The kernel keeps the part until the rest comes, so the rest must come to the kernel, too.
            host.leave_to_kernel_for(self.into(), Request::MoreToCome);
        }
        if flags & !HARMLESS_FLAGS != 0 || message.has_control() {
            return SendOutcome::Kernel(Reason::Message);
        }
        let name = match message.destination(self.family()) {
            Ok(name) => name,
            Err(reason) => return SendOutcome::Kernel(reason),
        };
        let Ok((len, parts)) = message.payload() else {
            return SendOutcome::Kernel(Reason::Message);
        };
        let mut resolved = false;
        loop {
            let mut send = self.send.lock();
            // Under this lock the object does not begin another life: what it has belongs to this descriptor, or the
            // descriptor has been closed.
            if !host.is_behind(fd, self) {
                return SendOutcome::Kernel(Reason::Message);
            }
            let Some(address) = name.or(send.peer) else {
                return SendOutcome::Kernel(Reason::Message);
            };
            if send.peer.is_some() && send.tick_has_passed() && self.kernel_has_error() {
                // The kernel's send reports it.
                return SendOutcome::Kernel(Reason::Message);
            }
            let identification = send.next_identification();
            if let Some(destination) = send.find(address) {
                let (interface, sent) = match &destination.way {
                    Way::Link {
                        payload_len_max, ..
                    } if len > *payload_len_max => {
                        destination.expire();
                        return SendOutcome::Kernel(Reason::TooLarge);
                    }
                    Way::Link {
                        interface,
                        template,
                        ..
                    } => (
                        *interface,
                        interface.transmit(template, identification, len, parts),
                    ),
                    Way::Kernel(reason) => {
                        let reason = *reason;
                        let look = send.counts_kernel_message();
                        drop(send);
                        if look {
                            host.follow_network();
                        }
                        return SendOutcome::Kernel(reason);
                    }
                };
                let needs_kick = match sent {
                    Transmitted::Sent { needs_kick } => needs_kick,
                    Transmitted::Full => {
                        self.counters().tx_eagain.add(1);
                        return SendOutcome::Kernel(Reason::RingFull);
                    }
                    Transmitted::Lost => {
                        self.counters().tx_errors.add(1);
                        drop(send);
                        host.device_lost();
                        return SendOutcome::Kernel(Reason::DeviceLost);
                    }
                    Transmitted::LargerThanFrame => {
                        return SendOutcome::Kernel(Reason::LargerThanFrame);
                    }
                };
                let counters = self.counters();
                counters.tx_packets.add(1);
                counters.tx_bytes.add(len as u64);
                self.note_thread(&self.sender, &counters.tx_thread);
                drop(send);
                if needs_kick {
                    match interface.frame_queued(follows, host.links.is_watched()) {
                        Notify::Now => {}
                        Notify::Later => host.links.frames_wait(),
                        Notify::LaterAndWatch => host.links.watch_senders(),
                    }
                }
                return SendOutcome::Done(len);
            }
            if resolved {
                // The network changes faster than we can ask.
                return SendOutcome::Kernel(Reason::Route);
            }
            let (local, rules, epoch) = (send.local, send.rules, send.epoch());
            let headers = send.headers();
            drop(send);
            resolved = true;
            if let Some(local) = local
                && let Err(reason) = self.resolve(host, local, address, rules, headers, epoch)
            {
                return SendOutcome::Kernel(reason);
            }
        }
    }

    /// Whether the kernel's socket holds an error, such as that of an ICMP message about the peer.
    #[cold]
    fn kernel_has_error(&self) -> bool {
        let fd = self.shadow.fd.load(Ordering::Relaxed);
        let mut polled = [libc::pollfd {
            fd,
            events: 0,
            revents: 0,
        }];
        sys::poll_now(&mut polled).is_ok() && polled[0].revents & libc::POLLERR != 0
    }

    /// Finds out where datagrams to an address go, and remembers it unless it holds for a moment only.
    #[cold]
    fn resolve(
        &self,
        host: &Host<S>,
        local: SocketAddrV4,
        address: SocketAddrV4,
        rules: Option<&ProcessRules>,
        mut headers: Option<HeaderOptions>,
        epoch: u64,
    ) -> Result<(), Reason> {
        let fd = self.shadow.fd.load(Ordering::Relaxed);
        let destination = Destination::resolve(host, fd, local, address, rules, &mut headers);
        if matches!(destination.way, Way::Kernel(Reason::Opening)) {
            return Err(Reason::Opening);
        }
        self.send.lock().remember(destination, headers, epoch);
        Ok(())
    }
}
