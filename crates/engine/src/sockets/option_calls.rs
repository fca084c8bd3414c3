//! Following the options and status flags of the kernel's socket.

use std::sync::atomic::Ordering;

use libc::c_int;

use crate::sockets::exception::Request;
use crate::sockets::host::Host;
use crate::sockets::options::{Effect, effect};
use crate::sockets::stack::Stack;
use crate::sys;

impl<S: Stack> Host<S> {
    /// The kernel has accepted a `setsockopt(2)`.
    pub fn option_was_set(&self, socket: impl Into<S>, level: c_int, name: c_int) {
        let socket = socket.into();
        let shadow = &socket.core().shadow;
        match effect(level, name) {
            Effect::None => {}
            Effect::ReceiveLimit => socket.receive_limit_changed(),
            Effect::ReceiveTimeout => {
                let fd = shadow.fd.load(Ordering::Relaxed);
                let timeout = sys::option_timeout_nsec(fd, libc::SO_RCVTIMEO).unwrap_or(0);
                shadow
                    .receive_timeout_nsec
                    .store(timeout, Ordering::Relaxed);
            }
            Effect::Flows => self.addresses_changed(socket),
            Effect::Headers => socket.headers_changed(),
            Effect::Kernel => self.leave_to_kernel_for(socket, Request::Option { level, name }),
        }
    }

    /// The kernel has accepted a change of the file status flags: `F_SETFL`, `FIONBIO`, `FIOASYNC`.
    pub fn status_flags_changed(&self, socket: impl Into<S>) {
        let socket = socket.into();
        let shadow = &socket.core().shadow;
        let fd = shadow.fd.load(Ordering::Relaxed);
        let Ok(flags) = sys::status_flags(fd) else {
            return;
        };
        shadow
            .nonblocking
            .store(flags & libc::O_NONBLOCK != 0, Ordering::Relaxed);
        if flags & libc::O_ASYNC != 0 {
            // The kernel raises SIGIO for what it sees.
            self.leave_to_kernel_for(socket, Request::SignalDriven);
        }
    }
}
