//! Where connections come in past the kernel: by which interfaces, to which of their addresses, or
//! to any.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering;

use links::family::{Addresses, scope_of};
use links::interface::Interface;
use links::network::InterfaceFacts;
use links::reason::Reason;
use sys::Errno;

use crate::sockets::hand_over;
use crate::sockets::host::Host;
use crate::tcp::listen::place::{Place, WaysIn, includes};
use crate::tcp::offload::{server_rule, server_rules_tell_apart};
use crate::tcp::socket::{Role, TcpSocket, TcpStack};

impl<S: TcpStack> TcpSocket<S> {
    /// Where connections to an address come in, of the interfaces that are `open`.
    pub(super) fn places_at(
        &self,
        host: &Host<S>,
        at: &Addresses,
        mut open: impl FnMut(u32) -> Result<&'static Interface<S>, Reason>,
    ) -> Result<Vec<Place<S>>, Reason> {
        let (fd, local) = (self.fd(), at.local);
        if let Some(reason) = host.refusal() {
            return Err(reason);
        }
        if !host.network().has_socket(fd) {
            return Err(Reason::Namespace);
        }
        if host.network().has_ipsec() {
            return Err(Reason::Ipsec);
        }
        // A broker does what takes rights, from when on an interface is open.
        if let Some((reason, _)) = self.globals.no_repair()
            && !host.links.has_broker()
        {
            return Err(reason);
        }
        let (scope, link) = (scope_of(local), self.device());
        if scope != 0 && scope != link {
            // Of a connection that has failed.
            return Err(Reason::Route);
        }
        let is_ruled_out = |address: &IpAddr| {
            server_rule(host.rules(), SocketAddr::new(*address, local.port())).is_some()
        };
        // One place for any address, however many there are, unless rules tell them apart.
        let is_for_any =
            local.ip().is_unspecified() && !server_rules_tell_apart(host.rules(), local.port());
        let mut places = Vec::new();
        let mut refusal = match link {
            0 => Reason::Loopback,
            _ => Reason::NoInterface,
        };
        for facts in host.links.facts() {
            let is_other = link != 0 && link != facts.spec.index;
            if facts.loopback || !facts.is_eligible() || is_other {
                continue;
            }
            let mut wanted = wanted_addresses(&facts, at, is_for_any);
            let count = wanted.len();
            wanted.retain(|address| !is_ruled_out(address));
            if wanted.len() < count {
                refusal = Reason::Rule;
            }
            if wanted.is_empty() {
                continue;
            }
            match open(facts.spec.index) {
                Ok(interface) if interface.takes_connections() => {
                    let has_v6 = wanted.iter().any(IpAddr::is_ipv6);
                    let hop_limit = if has_v6 {
                        host.network().hop_limit(facts.spec.index)
                    } else {
                        0
                    };
                    places.extend(wanted.into_iter().map(|address| Place {
                        interface,
                        address,
                        hop_limit,
                    }));
                }
                // One that waits for another is the kernel's for a while only.
                _ if refusal.passes() => {}
                Ok(_) => refusal = Reason::Merged,
                Err(reason) => refusal = reason,
            }
        }
        match self.globals.no_repair() {
            _ if places.is_empty() => Err(refusal),
            Some((reason, _)) => Err(reason),
            None => Ok(places),
        }
    }

    pub(super) fn set_listener_filter(&self, ways: &WaysIn) -> Result<(), Errno> {
        self.has_refused
            .fetch_or(!ways.is_empty(), Ordering::Relaxed);
        sys::set_listener_filter(self.fd(), ways)
    }

    /// The same, and notes it of a listener.
    pub(super) fn change_refused(&self, ways: WaysIn) -> Result<(), Errno> {
        self.set_listener_filter(&ways)?;
        if let Role::Listener(listening) = &mut *self.role.lock() {
            listening.refused = ways;
        }
        Ok(())
    }

    /// The network or a device has changed. From interfaces that are gone no more connections come:
    /// they come in by those that are left, and else to the kernel's socket. Of other addresses the
    /// kernel's socket hears. Under the control lock.
    pub(in crate::tcp) fn follow_places(&'static self, host: &Host<S>) {
        let (lost, places, refused, is_settled) = {
            let mut role = self.role.lock();
            let Role::Listener(listening) = &mut *role else {
                return;
            };
            let places = &mut listening.places;
            let lost = places.extract_if(.., |it| it.interface.is_lost());
            let lost: Vec<_> = lost.map(|it| it.interface).collect();
            let refused = listening.refused.clone();
            (
                lost,
                listening.places.clone(),
                refused,
                listening.refuses_at.is_none(),
            )
        };
        if places.is_empty() {
            if lost.iter().any(|it| it.has_broker_ended()) {
                return hand_over::hand_over_for_now(host, self.into(), Reason::BrokerEnded);
            }
            return hand_over::hand_over(host, self.into(), Reason::DeviceLost, "");
        }
        let mut ways = ways_in(host, &places);
        if !is_settled {
            // New ones are refused when the kernel has ended what it has begun.
            ways = common(&ways, &refused);
        }
        if ways != refused {
            let _ = self.change_refused(ways);
        }
        let flows = &mut self.attachment().flows;
        for (interface, flow) in flows.extract_if(.., |it| it.0.is_lost()) {
            interface.leave_flow(&flow, self.identity());
        }
    }
}

/// The addresses of an interface at which a socket listens; the unspecified one of a version for
/// all of it.
fn wanted_addresses(facts: &InterfaceFacts, at: &Addresses, is_for_any: bool) -> Vec<IpAddr> {
    let is_wanted = |address: &IpAddr| {
        at.local.ip() == *address || at.local.ip().is_unspecified() && at.versions.carry(*address)
    };
    let wanted = facts.addresses.iter().copied().filter(is_wanted);
    if !is_for_any {
        // An address may be there twice, with two prefix lengths.
        let mut different = Vec::new();
        wanted.for_each(|it| {
            if !different.contains(&it) {
                different.push(it);
            }
        });
        return different;
    }
    let all: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
    let has = |any: &IpAddr| {
        facts
            .addresses
            .iter()
            .any(|it| includes(*any, *it) && is_wanted(it))
    };
    all.into_iter().filter(has).collect()
}

/// What comes past the kernel to these places. By another interface than its own what is for an
/// address comes to the kernel.
pub(super) fn ways_in<S: TcpStack>(host: &Host<S>, places: &[Place<S>]) -> WaysIn {
    let mut ways = WaysIn::new();
    let mut facts = None;
    for place in places {
        let index = place.interface.spec().index;
        let addresses = match place.address {
            IpAddr::V6(_) => continue,
            IpAddr::V4(address) if !address.is_unspecified() => vec![address],
            IpAddr::V4(_) => {
                let mut facts = facts.get_or_insert_with(|| host.links.facts()).iter();
                let facts = facts.find(|it| it.spec.index == index);
                let addresses = facts.into_iter().flat_map(|it| &it.addresses);
                let of_v4 = |address: &IpAddr| match address {
                    IpAddr::V4(address) => Some(*address),
                    IpAddr::V6(_) => None,
                };
                addresses.filter_map(of_v4).collect()
            }
        };
        match ways.iter_mut().find(|it| it.0 == index) {
            Some((_, known)) => known.extend(addresses),
            None => ways.push((index, addresses)),
        }
    }
    ways.retain(|it| !it.1.is_empty());
    ways
}

/// What is in both.
fn common(ways: &WaysIn, others: &WaysIn) -> WaysIn {
    let of_other = |(index, addresses): &(u32, Vec<Ipv4Addr>)| {
        let (_, known) = others.iter().find(|it| it.0 == *index)?;
        let addresses: Vec<_> = addresses
            .iter()
            .filter(|it| known.contains(it))
            .copied()
            .collect();
        (!addresses.is_empty()).then_some((*index, addresses))
    };
    ways.iter().filter_map(of_other).collect()
}
