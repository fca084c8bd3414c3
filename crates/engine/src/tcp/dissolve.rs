//! `connect(2)` to `AF_UNSPEC`: a connection is dissolved, and its socket is as a new one.

use std::sync::atomic::Ordering;

use sys::streams;

use crate::sockets::host::Host;
use crate::tcp::clock::now;
use crate::tcp::connect::ConnectOutcome;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

impl<S: TcpStack> TcpSocket<S> {
    /// Resets the connection. No lock may be held.
    pub(super) fn disconnect(&'static self, host: &Host<S>) -> ConnectOutcome {
        let _control = host.control();
        let mut role = self.role.lock();
        let (mut sender, mut was_accepted, mut keep_alive) = (None, false, false);
        if let Role::Stream(stream) = &mut *role {
            was_accepted = stream.listener.is_some();
            keep_alive = stream.connection.options().keep_alive();
            stream.connection.abort();
            let outcome = stream.settle(&self.core, now());
            sender = stream
                .egress
                .as_ref()
                .filter(|_| outcome.needs_kick)
                .map(|egress| *egress.sender);
        }
        drop(role);
        if let Some(sender) = sender {
            sender.start_segments();
        }
        self.forget_connection();
        if was_accepted {
            self.renew_kernels_socket(keep_alive);
        }
        ConnectOutcome::Done
    }

    /// The kernel socket of an accepted connection was bound to its address, and is for good; the
    /// kernel's own is not, and can be bound again. A new socket takes its place, unless others
    /// have the old one, too. Under the control lock.
    fn renew_kernels_socket(&self, keep_alive: bool) {
        let fd = self.fd();
        let is_alone = self.attachment().descriptors == 1 && !self.readiness.is_watched();
        if !is_alone || !self.has_own_number() {
            return;
        }
        let nonblocking = self.kernel_socket.nonblocking.load(Ordering::Relaxed);
        let flags = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
        let domain = self.family().domain();
        let Ok(fresh) = streams::new_socket(domain, flags | libc::SOCK_CLOEXEC) else {
            return;
        };
        self.give_options(fresh);
        for (name, is_set) in [
            (libc::SO_KEEPALIVE, keep_alive),
            (libc::SO_REUSEADDR, self.attachment().reuses_address()),
        ] {
            if is_set {
                let _ = streams::set_option(fresh, libc::SOL_SOCKET, name, &1);
            }
        }
        if streams::takes_place(fresh, fd).is_ok() {
            let inode = sys::inode(fd);
            self.kernel_socket.inode.store(inode, Ordering::Relaxed);
            self.counters().inode.set(inode);
        }
        streams::close(fresh);
    }
}
