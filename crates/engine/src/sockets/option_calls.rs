//! Following the options and status flags of the kernel's socket.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::Ordering;

use libc::c_int;
use links::family::Family;
use links::groups::is_looped;
use vma_config::DeviceTimes;

use crate::sockets::exception::Request;
use crate::sockets::host::Host;
use crate::sockets::options::{Effect, effect};
use crate::sockets::pacing::limit::RateLimit;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sockets::stamps::{tells_device, wants_hardware_stamps};

impl<S: Stack> SocketCore<S> {
    /// Whether calls are not to wait (`O_NONBLOCK`), as the kernel has it: a program may have said
    /// so by instructions of its own, as rustix does. For calls that take long anyway.
    #[cold]
    pub(crate) fn learns_nonblocking(&self) -> bool {
        let flags = sys::status_flags(self.kernel_socket.fd.load(Ordering::Relaxed));
        let nonblocking = flags.is_ok_and(|flags| flags & libc::O_NONBLOCK != 0);
        if nonblocking {
            self.kernel_socket
                .nonblocking
                .store(true, Ordering::Relaxed);
            self.counters().nonblocking.set(true);
        }
        nonblocking
    }
}

impl<S: Stack> Host<S> {
    /// The kernel has accepted a `setsockopt(2)`.
    pub fn option_was_set(&self, socket: impl Into<S>, level: c_int, name: c_int) {
        let socket = socket.into();
        let kernel_socket = &socket.core().kernel_socket;
        match effect(level, name) {
            Effect::None => {}
            Effect::ReceiveLimit => socket.receive_limit_changed(),
            Effect::Timeout => kernel_socket.read_timeouts(),
            Effect::Flows => self.addresses_changed(socket),
            Effect::Groups => {
                let all = sys::option_int(socket.core().fd(), level, name) != Ok(0);
                let mut attachment = socket.core().attachment();
                match level {
                    libc::IPPROTO_IP => attachment.groups.takes_all.v4 = all,
                    _ => attachment.groups.takes_all.v6 = all,
                }
                drop(attachment);
                self.addresses_changed(socket);
            }
            Effect::Messages => {
                socket.message_options_changed();
                if level == libc::SOL_SOCKET
                    && self.settings().device_times != DeviceTimes::Off
                    && wants_hardware_stamps(socket.core().fd())
                    && self.leaves_device_times(socket.core().fd())
                {
                    self.leave_to_kernel_for(socket, Request::Option { level, name });
                }
            }
            Effect::Choice => {
                let shares_port = {
                    let mut attachment = socket.core().attachment();
                    attachment.chosen_by_cpu = true;
                    attachment.shares_port
                };
                if shares_port {
                    self.leave_to_kernel_for(socket, Request::Option { level, name });
                }
            }
            Effect::Device => {
                socket.message_options_changed();
                self.addresses_changed(socket);
            }
            Effect::Headers => socket.headers_changed(),
            Effect::Family => socket.core().set_family(Family::Inet),
            Effect::Multicast => {
                socket.core().show_multicast_options();
                socket.headers_changed();
            }
            Effect::Kernel => self.leave_to_kernel_for(socket, Request::Option { level, name }),
        }
    }

    /// Whether only the kernel can tell a socket all that it asks for of times by devices' clocks.
    fn leaves_device_times(&self, fd: c_int) -> bool {
        match tells_device(fd) {
            true => self.links.has_hardware_stamps(),
            false => self.links.has_hidden_stamps(),
        }
    }

    /// The program is about to say a socket's rate, in VMA's words or in the kernel's.
    pub fn rate_limit_was_said(&self, socket: impl Into<S>, limit: Option<RateLimit>) {
        socket.into().core().attachment().rate_limit = limit;
    }

    /// The program asks for the time of the datagram that it has read last (`SIOCGSTAMP`), which
    /// the kernel keeps from the first such call on: the socket goes back to it. Returns whether
    /// there has been one that the kernel has not seen.
    pub fn last_stamp_wanted(&self, socket: impl Into<S>) -> bool {
        let socket = socket.into();
        let has_received = socket.core().counters().rx_packets.value() > 0;
        self.leave_to_kernel_for(socket, Request::LastStamp);
        has_received
    }

    /// The kernel has accepted a change of the file status flags: `F_SETFL`, `FIONBIO`, `FIOASYNC`.
    pub fn status_flags_changed(&self, socket: impl Into<S>) {
        let socket = socket.into();
        let core = socket.core();
        let fd = core.kernel_socket.fd.load(Ordering::Relaxed);
        let Ok(flags) = sys::status_flags(fd) else {
            return;
        };
        let nonblocking = flags & libc::O_NONBLOCK != 0;
        core.kernel_socket
            .nonblocking
            .store(nonblocking, Ordering::Relaxed);
        core.kernel_socket
            .appends
            .store(flags & libc::O_APPEND != 0, Ordering::Relaxed);
        core.counters().nonblocking.set(nonblocking);
        if flags & libc::O_ASYNC != 0 {
            // The kernel raises SIGIO for what it sees.
            self.leave_to_kernel_for(socket, Request::SignalDriven);
        }
    }
}

impl<S: Stack> SocketCore<S> {
    /// Shows readers how the socket sends multicast.
    fn show_multicast_options(&self) {
        let fd = self.fd();
        let counters = self.counters();
        counters.mc_loop_off.set(is_looped(fd) == Some(false));
        // The address as it lies in memory; none for an interface that was chosen by index.
        let address = sys::option_int(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_IF);
        match address.map(|address| Ipv4Addr::from(address.to_ne_bytes())) {
            Ok(address) if !address.is_unspecified() => {
                counters
                    .mc_interface
                    .set(SocketAddrV4::new(address, 0).into());
            }
            _ => counters.mc_interface.clear(),
        }
    }
}
