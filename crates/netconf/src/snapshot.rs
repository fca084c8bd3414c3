//! The configuration as of the last notification, and what a notification does to it.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::neighbour::NeighbourMessage;

use crate::address::Address;
use crate::changes::Changes;
use crate::connection::Connection;
use crate::error::Error;
use crate::framing::Message;
use crate::link::Link;
use crate::neighbour::{Neighbour, NeighbourState};
use crate::route;

/// Links, addresses and neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) links: BTreeMap<u32, Link>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) neighbours: HashMap<(u32, IpAddr), Neighbour>,
    /// Entries that the kernel listed but could not be decoded.
    pub(crate) unreadable: usize,
}

/// What a message says about the configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Update {
    Link(Link),
    LinkGone(u32),
    Address(Address),
    AddressGone(Address),
    Neighbour(Neighbour),
    NeighbourGone((u32, IpAddr)),
    /// A route to a destination (address, prefix length) is not what it was.
    Route((IpAddr, u8)),
    /// Policy rules, next hops or how links forward are not what they were.
    Routing,
    /// Nothing that is kept here.
    Nothing,
}

impl Update {
    /// The error says why the message cannot be decoded.
    pub(crate) fn from_message(message: &Message<'_>) -> Result<Self, String> {
        match message.header.message_type {
            // Their content is asked for when it is needed.
            RTM_NEWRULE | RTM_DELRULE | RTM_NEWNEXTHOP | RTM_DELNEXTHOP | RTM_NEWNETCONF
            | RTM_DELNETCONF => {
                return Ok(Self::Routing);
            }
            RTM_NEWROUTE | RTM_DELROUTE => {
                let destination = message.decode().ok().and_then(|message| match message {
                    RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
                        route::destination(&route)
                    }
                    _ => None,
                });
                return Ok(destination.map_or(Self::Routing, Self::Route));
            }
            // A bridge reports its ports as links, and ports that leave it as deleted links.
            RTM_NEWLINK | RTM_DELLINK if message.family() != Some(AF_UNSPEC) => {
                return Ok(Self::Nothing);
            }
            // Bridges report their forwarding tables as neighbours.
            RTM_NEWNEIGH | RTM_DELNEIGH
                if !matches!(message.family(), Some(AF_INET | AF_INET6)) =>
            {
                return Ok(Self::Nothing);
            }
            RTM_NEWLINK | RTM_DELLINK | RTM_NEWADDR | RTM_DELADDR | RTM_NEWNEIGH | RTM_DELNEIGH => {
            }
            _ => return Ok(Self::Nothing),
        }
        let update = match message.decode()? {
            RouteNetlinkMessage::NewLink(message) => Link::from_message(&message).map(Self::Link),
            RouteNetlinkMessage::DelLink(message) => Some(Self::LinkGone(message.header.index)),
            RouteNetlinkMessage::NewAddress(message) => {
                Address::from_message(&message).map(Self::Address)
            }
            RouteNetlinkMessage::DelAddress(message) => {
                Address::from_message(&message).map(Self::AddressGone)
            }
            RouteNetlinkMessage::NewNeighbour(message) => {
                Neighbour::from_message(&message).map(Self::Neighbour)
            }
            RouteNetlinkMessage::DelNeighbour(message) => Neighbour::from_message(&message)
                .map(|neighbour| Self::NeighbourGone((neighbour.link_index, neighbour.address))),
            _ => None,
        };
        Ok(update.unwrap_or(Self::Nothing))
    }
}

impl Snapshot {
    /// Reads everything from the kernel.
    pub(crate) fn read(connection: &mut Connection) -> Result<Self, Error> {
        let mut links = LinkMessage::default();
        // Statistics would be most of the reply.
        let mask = vec![LinkExtentMask::SkipStats];
        links.attributes.push(LinkAttribute::ExtMask(mask));
        let parts = [
            ("list links", RouteNetlinkMessage::GetLink(links)),
            (
                "list addresses",
                RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            ),
            (
                "list neighbours",
                RouteNetlinkMessage::GetNeighbour(NeighbourMessage::default()),
            ),
        ];
        let mut snapshot = Self::default();
        for (request, message) in parts {
            let part: Self = connection.dump(request, &message, |part: &mut Self, message| {
                match Update::from_message(message) {
                    Ok(update) => {
                        part.apply(update, &mut Changes::default());
                    }
                    Err(_) => part.unreadable += 1,
                }
            })?;
            snapshot.links.extend(part.links);
            snapshot.addresses.extend(part.addresses);
            snapshot.neighbours.extend(part.neighbours);
            snapshot.unreadable += part.unreadable;
        }
        Ok(snapshot)
    }

    /// Takes over what a message says and notes the difference in `changes`. True if it can alter a
    /// forwarding decision.
    pub(crate) fn apply(&mut self, update: Update, changes: &mut Changes) -> bool {
        match update {
            Update::Link(link) => {
                let index = link.index;
                let differs = self.links.get(&index) != Some(&link);
                if differs {
                    self.links.insert(index, link);
                    changes.link(index);
                }
                differs
            }
            Update::LinkGone(index) => self.remove_link(index, changes),
            Update::Address(address) => {
                let known = self
                    .addresses
                    .iter_mut()
                    .find(|known| known.is_same_entry(&address));
                match known {
                    Some(known) if *known == address => return false,
                    Some(known) => *known = address,
                    None => self.addresses.push(address),
                }
                changes.addresses = true;
                true
            }
            Update::AddressGone(address) => {
                let before = self.addresses.len();
                self.addresses
                    .retain(|known| !known.is_same_entry(&address));
                let differs = self.addresses.len() != before;
                changes.addresses |= differs;
                differs
            }
            Update::Neighbour(neighbour) => self.set_neighbour(neighbour, changes),
            Update::NeighbourGone(key) => {
                let gone = self.neighbours.remove(&key);
                changes.neighbours |= gone.is_some();
                let differs = gone.is_some_and(|gone| gone.usable());
                if differs {
                    changes.neighbour(key);
                }
                differs
            }
            Update::Route(destination) => {
                changes.route(destination);
                true
            }
            Update::Routing => {
                changes.every_route();
                true
            }
            Update::Nothing => false,
        }
    }

    /// Notes in `changes` how `newer` differs.
    pub(crate) fn compare(&self, newer: &Self, changes: &mut Changes) {
        for index in self.links.keys().chain(newer.links.keys()) {
            if self.links.get(index) != newer.links.get(index) {
                changes.link(*index);
            }
        }
        let contains = |addresses: &[Address], address| addresses.contains(address);
        changes.addresses |= self.addresses.len() != newer.addresses.len()
            || !self
                .addresses
                .iter()
                .all(|address| contains(&newer.addresses, address));
        changes.neighbours |= self.neighbours != newer.neighbours;
        for (key, neighbour) in &newer.neighbours {
            let was_stale = self
                .neighbours
                .get(key)
                .is_some_and(|old| old.state == NeighbourState::Stale);
            if neighbour.state == NeighbourState::Stale && !was_stale {
                changes.stale(*key);
            }
        }
    }

    fn set_neighbour(&mut self, neighbour: Neighbour, changes: &mut Changes) -> bool {
        let key = (neighbour.link_index, neighbour.address);
        let known = self.neighbours.get(&key);
        if known == Some(&neighbour) {
            return false;
        }
        changes.neighbours = true;
        let was_stale = known.is_some_and(|known| known.state == NeighbourState::Stale);
        if neighbour.state == NeighbourState::Stale && !was_stale {
            changes.stale(key);
        }
        let differs = known.and_then(Neighbour::usable_mac) != neighbour.usable_mac();
        if differs {
            changes.neighbour(key);
        }
        self.neighbours.insert(key, neighbour);
        differs
    }

    fn remove_link(&mut self, index: u32, changes: &mut Changes) -> bool {
        if self.links.remove(&index).is_none() {
            return false;
        }
        changes.link(index);
        // The kernel reports these too, before or after.
        let addresses = self.addresses.len();
        self.addresses.retain(|address| address.link_index != index);
        changes.addresses |= self.addresses.len() != addresses;
        let neighbours = self.neighbours.len();
        self.neighbours.retain(|key, _| key.0 != index);
        changes.neighbours |= self.neighbours.len() != neighbours;
        true
    }
}

// linux/rtnetlink.h and linux/socket.h.
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_NEWNETCONF: u16 = 80;
const RTM_DELNETCONF: u16 = 81;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;
const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

#[cfg(test)]
mod tests;
