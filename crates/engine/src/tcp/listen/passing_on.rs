//! Connections that this process does not accept in time, though others accept from the kernel's
//! socket, too: they come into the kernel's queue, from which whoever is free takes them.

use std::time::Duration;

use ::tcp::Instant;
use dev_core::Admission;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::listen::Listening;
use crate::tcp::listen::returning::{admit, flow_of, has_room};
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

/// A program that does nothing but serve accepts within that.
const PATIENCE: Duration = Duration::from_millis(20);

/// How soon it is tried again where that could not be.
const RETRY: Duration = Duration::from_secs(1);

/// When a connection is passed on that waits since then.
pub(super) fn due(ready_since: Option<Instant>, from: Option<Instant>) -> Option<Instant> {
    let (since, from) = ready_since.zip(from)?;
    Some((since + PATIENCE).max(from))
}

impl<S: Stack> Listening<S> {
    /// When the connection is passed on that has waited longest.
    pub(super) fn next_passed_on_at(&self) -> Option<Instant> {
        let first = self.children.get(&self.next()?)?;
        due(first.ready_since, self.passes_on_from)
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// In the internal thread, when the listener is looked after.
    pub(in crate::tcp) fn passes_on(&'static self, host: &Host<S>, now: Instant) {
        if !self.has_one_to_pass_on(now) {
            return;
        }
        // Without others, or a way to them, they wait for this process.
        if self.have_others_parts()
            && let Ok(admission) = host.admission()
        {
            self.pass_on(host, now, &*admission);
        }
        if self.has_one_to_pass_on(now)
            && let Role::Listener(listening) = &mut *self.role.lock()
        {
            listening.passes_on_from = Some(now + RETRY);
        }
    }

    fn has_one_to_pass_on(&self, now: Instant) -> bool {
        match &*self.role.lock() {
            Role::Listener(listening) => listening.next_passed_on_at().is_some_and(|it| it <= now),
            _ => false,
        }
    }

    /// As far as the kernel's queue has room.
    fn pass_on(&self, host: &Host<S>, now: Instant, admission: &dyn Admission) {
        let _control = host.control();
        while self.has_one_to_pass_on(now) && has_room(self.fd()) {
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
            admit(host, Some(self.fd()), admission, *stream);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_passed_on_is_not_due_at_once_again() {
        let since = Instant::from_nanos(7_000_000_000);
        let (before, retry) = (since, since + RETRY);
        assert_eq!(due(None, Some(before)), None);
        assert_eq!(due(Some(since), None), None, "nobody else accepts");
        assert_eq!(due(Some(since), Some(before)), Some(since + PATIENCE));
        assert_eq!(due(Some(since), Some(retry)), Some(retry));
    }
}
