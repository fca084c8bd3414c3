//! Connections that this process does not accept in time, though others accept from the kernel's
//! socket, too: they come into the kernel's queue, from which whoever is free takes them.

use std::time::Duration;

use ::tcp::Instant;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::listen::Listening;
use crate::tcp::listen::returning::{admit, flow_of, has_room};
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// A program that does nothing but serve accepts within that.
const PATIENCE: Duration = Duration::from_millis(20);

/// When a connection is passed on that waits since then.
pub(super) fn due(ready_since: Option<Instant>, have_others_parts: bool) -> Option<Instant> {
    ready_since
        .filter(|_| have_others_parts)
        .map(|since| since + PATIENCE)
}

impl<S: Stack> Listening<S> {
    /// When the connection is passed on that has waited longest.
    pub(super) fn next_passed_on_at(&self) -> Option<Instant> {
        let first = self.children.get(&self.next()?)?;
        due(first.ready_since, self.have_others_parts)
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// In the internal thread, when the listener is looked after.
    pub(in crate::tcp) fn passes_on(&'static self, host: &Host<S>, now: Instant) {
        let is_due = || match &*self.role.lock() {
            Role::Listener(listening) => listening.next_passed_on_at().is_some_and(|it| it <= now),
            _ => false,
        };
        if !is_due() || !self.have_others_parts() {
            return;
        }
        // Without that they wait for this process.
        let Ok(admission) = host.admission() else {
            return;
        };
        let _control = host.control();
        while is_due() && has_room(self.fd()) {
            let mut role = self.role.lock();
            let Role::Listener(listening) = &mut *role else {
                return;
            };
            let Some(key) = listening.next() else {
                return;
            };
            let interface = listening.interface_of(key);
            let Some(stream) = listening.accepted(key, &self.core) else {
                return;
            };
            drop(role);
            admit(host, Some(self.fd()), &*admission, *stream);
            let flow = flow_of(key);
            if let Some(interface) = interface
                && interface.exempt(&flow).is_ok()
            {
                // The port is of several: what has no flow is the kernel's for good.
                interface.end_exemption(&flow);
            }
        }
    }
}
