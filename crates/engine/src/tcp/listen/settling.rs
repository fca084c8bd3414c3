//! A listener goes over from the kernel while peers connect. No SYN is lost, and no end of a
//! handshake: until its flows are there the kernel answers, and then the listener does. What the
//! kernel has begun by then it ends: what comes of that past it is [sent
//! on](crate::tcp::state::unmatched::UnmatchedSegment). So its socket does not refuse such segments
//! before there has been time for that, and for those that are on their way through the kernel.

use std::time::Duration;

use links::network::KernelConnection;
use links::reason::Reason;

use ::tcp::Instant;
use dev_core::{Flow, Protocol};

use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::tcp::listen::place::includes;
use crate::tcp::listen::places::ways_in;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// A handshake takes no longer, unless something of it is lost. The connection of one that does
/// takes the way through the library.
pub(super) const SETTLING: Duration = Duration::from_secs(1);

impl<S: TcpStack> TcpSocket<S> {
    /// In the internal thread, when the listener is looked after.
    pub(in crate::tcp) fn settles(&'static self, host: &Host<S>, now: Instant) {
        let is_due = || match &*self.role.lock() {
            Role::Listener(listening) => listening.refuses_at.is_some_and(|at| at <= now),
            _ => false,
        };
        if !is_due() {
            return;
        }
        let _control = host.control();
        let places = match &mut *self.role.lock() {
            Role::Listener(listening) => {
                listening.refuses_at = None;
                listening.places.clone()
            }
            _ => return,
        };
        self.leave_connections_to_kernel();
        if self.change_refused(ways_in(host, &places)).is_err() {
            hand_over::hand_over(host, self.into(), Reason::Option, "");
        }
    }

    /// The kernel's connections go on there, though their segments come past it, too. Under the
    /// control lock.
    pub(super) fn leave_connections_to_kernel(&self) {
        let flows = self.attachment().flows.clone();
        let Some((_, first)) = flows.first() else {
            return;
        };
        let connections = self.globals.exempt.connections_at(first.local.port());
        for (interface, own) in flows {
            // One at another interface's address is not exempt there.
            let is_here = |it: &&KernelConnection| {
                it.local.port() == own.local.port() && includes(own.local.ip(), it.local.ip())
            };
            let here = connections.iter().filter(is_here);
            for it in here.filter(|it| it.waits.is_none()) {
                let flow = Flow {
                    protocol: Protocol::Tcp,
                    local: it.local,
                    peer: Some(it.peer),
                };
                // The kernel socket of one that is here is none of its connections.
                if !interface.has_connection(&flow) {
                    self.globals.exempt.begin_with(interface, &flow, it.cookie);
                }
            }
        }
    }
}
