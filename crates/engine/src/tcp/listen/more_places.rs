//! A listener at any address that is past the kernel on some interfaces gets others: those that
//! another process has had, and those that come later.

use links::Absent;
use links::family::Addresses;
use links::reason::Reason;

use crate::sockets::host::Host;
use crate::sockets::stack::MayOpen;
use crate::tcp::clock::now;
use crate::tcp::listen::place::Place;
use crate::tcp::listen::settling::SETTLING;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

impl<S: TcpStack> TcpSocket<S> {
    /// Where connections come in by interfaces that are open, and which are to be opened first,
    /// without a lock.
    pub(super) fn open_places_at(
        &self,
        host: &Host<S>,
        at: &Addresses,
    ) -> (Result<Vec<Place<S>>, Reason>, Vec<u32>) {
        let mut closed = Vec::new();
        let places = self.places_at(host, at, |index| {
            host.links
                .get_for_flows(index)
                .map_err(|absent| match absent {
                    Absent::Refused(reason) => reason,
                    Absent::Closed | Absent::Opening => {
                        closed.push(index);
                        Reason::Held
                    }
                })
        });
        (places, closed)
    }

    /// Interfaces are free or have come, perhaps, or have got addresses. Returns those that are to
    /// be opened first. Under the control lock.
    pub(in crate::tcp) fn gain_places(
        &'static self,
        host: &Host<S>,
        may_open: MayOpen,
    ) -> Vec<u32> {
        if !self.is_listener() || !self.attachment().local.ip().is_unspecified() {
            return Vec::new();
        }
        let Ok(Some(addresses)) = Addresses::of(self.fd()) else {
            return Vec::new();
        };
        let (found, closed) = self.open_places_at(host, &addresses);
        if may_open == MayOpen::Yes && !closed.is_empty() {
            return closed;
        }
        let mut new = found.unwrap_or_default();
        match &mut *self.role.lock() {
            Role::Listener(listening) => {
                let known = &mut listening.places;
                new.retain(|place| !known.iter().any(|it| it.is_the_same(place)));
                // Before the first segment comes.
                known.extend(&new);
                if !new.is_empty() {
                    listening.refuses_at = Some(now() + SETTLING);
                }
            }
            _ => return Vec::new(),
        }
        if new.is_empty() {
            return Vec::new();
        }
        let local = addresses.local;
        for place in new {
            let name = &place.interface.spec().name;
            match self.take_place(&place, local.port()) {
                Ok(()) => log::debug!("{local}: past the kernel by {name}, too"),
                Err(reason) => {
                    log::debug!("{local}: not past the kernel by {name}: {}", reason.text());
                    if let Role::Listener(listening) = &mut *self.role.lock() {
                        listening.places.retain(|it| !it.is_the_same(&place));
                    }
                }
            }
        }
        self.bring_flows();
        self.leave_connections_to_kernel();
        self.globals.timers.arm(self.timer(), now());
        self.interfaces_changed();
        Vec::new()
    }
}
