//! Sockets that the program binds to an interface (`SO_BINDTODEVICE`, `SO_BINDTOIFINDEX`): their
//! packets come and go by that one only. The kernel's socket is bound, and chooses addresses and
//! route accordingly; what comes back to this host for it finds it if its address is one of that
//! interface's (`inet_iif`), so only such a socket is past the kernel.

use std::net::IpAddr;

use libc::c_int;
use links::family::{Family, link_of};
use links::reason::Reason;
use sys::streams;

use crate::sockets::host::Host;
use crate::sockets::option_names::OptionName;
use crate::sockets::options::SO_BINDTOIFINDEX;
use crate::sockets::stack::Stack;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::stream::Stream;

impl<S: Stack> TcpSocket<S> {
    /// Index of the interface that the kernel's socket is bound to, or 0. Over IPv6 an address may
    /// bind it, too.
    pub(super) fn device(&self) -> u32 {
        if self.family() == Family::Inet6 || self.has_chosen_device() {
            sys::bound_device(self.fd())
        } else {
            0
        }
    }

    fn has_chosen_device(&self) -> bool {
        let by_name = self.has_set(libc::SOL_SOCKET, libc::SO_BINDTODEVICE);
        by_name || self.has_set(libc::SOL_SOCKET, SO_BINDTOIFINDEX)
    }

    /// That of a listener here.
    pub(super) fn device_of_listener(&self) -> Option<u32> {
        match &*self.role.lock() {
            Role::Listener(listening) => Some(listening.device),
            _ => None,
        }
    }

    /// The kernel has accepted a connection of this listener, at `fd`. It may have been put into
    /// the queue while the listener was bound to no interface.
    pub(super) fn binds_accepted(&self, fd: c_int) {
        if !self.has_chosen_device() {
            return;
        }
        let device = sys::bound_device(self.fd());
        if device != 0 && sys::bound_device(fd) == 0 {
            streams::bind_to_device(fd, device);
        }
    }

    /// Has the kernel's socket take a connection while it is bound as that was: what the program
    /// has changed since counts afterwards.
    pub(super) fn bound_as_before<T>(&self, fd: c_int, before: u32, take: impl FnOnce() -> T) -> T {
        if !self.has_chosen_device() {
            return take();
        }
        let device = sys::bound_device(fd);
        if device == before {
            return take();
        }
        streams::bind_to_device(fd, before);
        let taken = take();
        streams::bind_to_device(fd, device);
        taken
    }
}

impl<S: Stack> Stream<S> {
    /// Says to which interface the kernel's socket is bound, or 0.
    pub(super) fn bound_to(mut self, device: u32) -> Self {
        self.device = match device {
            0 => link_of(self.local, self.peer),
            device => device,
        };
        self
    }
}

/// Whether an address is one of an interface's.
pub(super) fn is_on<S: Stack>(host: &Host<S>, device: u32, address: IpAddr) -> bool {
    let facts = host.links.facts();
    let mut on_device = facts.iter().filter(|it| it.spec.index == device);
    on_device.any(|it| it.addresses.contains(&address))
}

impl<S: TcpStack> TcpSocket<S> {
    /// The kernel has bound the socket to an interface, or to none.
    pub(super) fn device_was_set(&'static self, host: &Host<S>, level: c_int, name: c_int) {
        let device = sys::bound_device(self.fd());
        let address = match &*self.role.lock() {
            Role::Stream(stream) if stream.device == device => return,
            Role::Stream(stream) if stream.interface.spec().index == device => stream.local.ip(),
            Role::Listener(listening) if listening.device == device => return,
            Role::Stream(_) | Role::Listener(_) => IpAddr::from([0; 4]),
            _ => return,
        };
        if !is_on(host, device, address) {
            let option = OptionName { level, name };
            return host.leave_to_kernel_about(self.into(), Reason::Option, &option.to_string());
        }
        if let Role::Stream(stream) = &mut *self.role.lock() {
            // It sends by that one only from here on.
            stream.device = device;
            stream.egress = None;
        }
        self.find_way(host);
    }
}
