//! A socket does not listen any more: it is closed, or the program has ended that alone.

use std::sync::atomic::Ordering;

use links::reason::Reason;

use crate::sockets::events;
use crate::sockets::host::Host;
use crate::tcp::clock::now;
use crate::tcp::listen::Listening;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

impl<S: TcpStack> TcpSocket<S> {
    /// The listener is closed. What nobody has accepted is reset. Under the control lock.
    pub(in crate::tcp) fn end_listening(&self, mut listening: Box<Listening<S>>) {
        if !listening.is_empty() {
            listening.abort_all(&self.core, now());
            for interface in listening.interfaces() {
                interface.start_segments();
            }
        }
        self.clear_filter();
    }

    /// What comes past the kernel is not refused there any more, unless it is for other processes.
    pub(super) fn clear_filter(&self) {
        if !self.have_others_parts() {
            let _ = sys::set_listener_filter(self.fd(), &[]);
        }
    }

    /// The kernel has done a `shutdown(2)`, or a `connect(2)` to `AF_UNSPEC`. Of a listener this
    /// ends the listening: what nobody has accepted is reset, who waits for connections is told,
    /// and the socket is as if it had never listened. No lock may be held.
    pub fn follow_end_of_listening(&'static self, host: &Host<S>) {
        let did_wait = self.waits_to_listen();
        if !self.is_listener() && !self.is_returning() && !did_wait {
            return;
        }
        let control = host.control();
        if sys::option_int(self.fd(), libc::SOL_SOCKET, libc::SO_ACCEPTCONN) != Ok(0) {
            // The direction was the other one.
            return;
        }
        if did_wait && self.waits_to_listen() {
            self.has_listened.store(true, Ordering::Relaxed);
            self.set_reason(Reason::NotBound);
            return;
        }
        // One that has just gone to the kernel.
        self.give_up_returning();
        let was = match &mut *self.role.lock() {
            role @ Role::Listener(_) => std::mem::replace(role, Role::None),
            _ => return,
        };
        self.globals.timers.disarm(self.timer());
        if let Role::Listener(listening) = was {
            self.end_listening(listening);
        }
        self.drop_flows();
        self.release();
        self.clear_readiness();
        self.counters().tcp_state.set(0);
        self.counters().local.clear();
        self.has_listened.store(true, Ordering::Relaxed);
        self.set_reason(Reason::NotBound);
        self.interfaces_changed();
        drop(control);
        self.readiness.announce(events::ALL);
    }
}
