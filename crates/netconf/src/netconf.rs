//! The snapshot, its notifications, and questions to the kernel.

use std::mem;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use netlink_packet_core::NLM_F_CREATE;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use dev_core::LinkSpec;

use crate::address::Address;
use crate::changes::Changes;
use crate::connection::Connection;
use crate::error::{Error, RouteError};
use crate::framing::Messages;
use crate::link::{Link, xdp_program};
use crate::neighbour::{Neighbour, NeighbourState};
use crate::obstacle::obstacle;
use crate::packet_filters;
use crate::route::{Route, RouteQuery};
use crate::rule;
use crate::snapshot::{Snapshot, Update};
use crate::socket::{BUFFER_BYTES, Received, Socket};
use crate::upper;

/// The kernel's network configuration, as seen from one network namespace.
#[derive(Debug)]
pub struct Netconf {
    /// Asks. Locked by itself, so that a route look-up needs no exclusive access.
    connection: Mutex<Connection>,
    /// Receives notifications.
    events: Socket,
    buffer: Box<[u8]>,
    snapshot: Snapshot,
    generation: u64,
    /// Notifications were lost, and the configuration has not been read again since.
    lost: bool,
    /// What was found changed but not yet reported.
    pending: Changes,
}

impl Netconf {
    /// Subscribes to notifications in the calling thread's network namespace and reads the
    /// configuration.
    ///
    /// # Errors
    ///
    /// If the process may not open netlink sockets (a sandbox), has no descriptor left, or the
    /// kernel does not answer.
    pub fn open() -> Result<Self, Error> {
        // In this order: a change between the two is seen twice rather than not at all.
        let events = Socket::open(None, NOTIFICATION_GROUPS)?;
        let mut connection = Connection::open()?;
        let snapshot = Snapshot::read(&mut connection)?;
        Ok(Self {
            connection: Mutex::new(connection),
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            snapshot,
            generation: 0,
            lost: false,
            pending: Changes::default(),
        })
    }

    /// Takes in the notifications that have arrived, without waiting, and reports what they
    /// changed. If some were lost, the whole configuration is read again.
    ///
    /// One call handles a bounded number of notifications; `events_fd` stays readable if there are
    /// more.
    ///
    /// # Errors
    ///
    /// If the socket or the repeated reading fails. Nothing is lost then: the next call goes on,
    /// and reports what this one would have.
    pub fn process_events(&mut self) -> Result<Changes, Error> {
        for _ in 0..EVENTS_PER_CALL {
            match self.events.receive_now(&mut self.buffer)? {
                Received::Nothing => break,
                Received::Overrun => self.lost = true,
                Received::Datagram(datagram) => {
                    for message in Messages::new(datagram) {
                        match message.and_then(|message| Update::from_message(&message)) {
                            Ok(update) => {
                                let matters = self.snapshot.apply(update, &mut self.pending);
                                self.generation += u64::from(matters);
                            }
                            Err(_unreadable) => self.lost = true,
                        }
                    }
                }
            }
        }
        if self.lost {
            self.resynchronise()?;
        }
        Ok(mem::take(&mut self.pending))
    }

    /// Asks the kernel to resolve or verify a neighbour, as if it had been sent to. For an entry
    /// that went stale while only user space sends to it, and for one that is not known yet. The
    /// result comes as a notification: up to some seconds later for a stale entry, for the kernel
    /// first waits for other signs of life (`delay_first_probe_time`).
    ///
    /// An entry that needs no verification (permanent, or of a link without resolution) is left
    /// alone.
    ///
    /// # Errors
    ///
    /// EPERM without CAP_NET_ADMIN; ENODEV or EINVAL if the link does not exist or has no
    /// neighbours.
    pub fn probe_neighbour(&self, link_index: u32, address: IpAddr) -> Result<(), Error> {
        // The kernel makes a permanent entry an ordinary one when it is asked to verify it.
        let state = self
            .neighbour(link_index, address)
            .map(|neighbour| neighbour.state);
        if matches!(
            state,
            Some(NeighbourState::Permanent | NeighbourState::Noarp)
        ) {
            return Ok(());
        }
        let mut message = NeighbourMessage::default();
        message.header.ifindex = link_index;
        message.header.flags = NeighbourFlags::Use;
        let (family, address) = match address {
            IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
            IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
        };
        message.header.family = family;
        message
            .attributes
            .push(NeighbourAttribute::Destination(address));
        let message = RouteNetlinkMessage::NewNeighbour(message);
        self.connection()
            .order("verify a neighbour", NLM_F_CREATE, message)
    }

    /// Asks the kernel for the way of a packet. The answer holds until [`Netconf::generation`]
    /// changes, except that path MTU discovery may change [`Route::mtu`] without a notification.
    ///
    /// Takes no longer than a system call, and at most about a second if the reply is lost.
    ///
    /// # Errors
    ///
    /// [`RouteError::Refused`] with the errno that `connect` or `sendto` would fail with.
    pub fn route(&self, query: &RouteQuery) -> Result<Route, RouteError> {
        let destination = query.destination;
        if let Some(query_source) = query.source
            && query_source.is_ipv4() != destination.is_ipv4()
        {
            return Err(RouteError::MixedFamilies {
                destination,
                query_source,
            });
        }
        let request = "look up a route";
        let message = RouteNetlinkMessage::GetRoute(query.to_message());
        let malformed = |detail: &str| Error::Malformed {
            request,
            detail: detail.to_owned(),
        };
        let answer = self.connection().ask(request, message);
        match answer {
            Ok(RouteNetlinkMessage::NewRoute(message)) => {
                let mut route = Route::from_message(&message).map_err(malformed)?;
                // The kernel does not repeat a source address that was asked for.
                route.preferred_source = route.preferred_source.or(query.source);
                Ok(route)
            }
            Ok(_) => Err(malformed("it is not a route").into()),
            Err(Error::Refused { source, .. }) => Err(RouteError::Refused {
                destination,
                source,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether policy rules tell packets of one destination apart by their transport protocol or
    /// ports (`ip-rule(8)`: ipproto, sport, dport), for IPv4.
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn routes_by_flow(&self) -> Result<bool, Error> {
        rule::any_by_flow(&mut self.connection())
    }

    /// The kinds of a link's queueing disciplines that are not what a link has by itself, such as
    /// "clsact", which runs filters and programs, or "htb". Each once.
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn queueing_disciplines(&self, link_index: u32) -> Result<Vec<String>, Error> {
        packet_filters::queueing_disciplines(&mut self.connection(), link_index)
    }

    /// Asks the kernel for the number of the XDP program that is attached to a link, in whatever
    /// mode. The snapshot does not have it: the kernel does not notify of programs that come and go
    /// with a bpf_link.
    ///
    /// # Errors
    ///
    /// ENODEV if there is no such link, or what went wrong with the question.
    pub fn xdp_program(&self, link_index: u32) -> Result<Option<u32>, Error> {
        let request = "look up an XDP program";
        let mut message = LinkMessage::default();
        message.header.index = link_index;
        message
            .attributes
            .push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
        let message = RouteNetlinkMessage::GetLink(message);
        match self.connection().ask(request, message)? {
            RouteNetlinkMessage::NewLink(message) => Ok(xdp_program(&message)),
            _ => Err(Error::Malformed {
                request,
                detail: "it is not a link".to_owned(),
            }),
        }
    }

    /// Readable when [`Netconf::process_events`] has something to do. Stays the same as long as
    /// `self`.
    pub fn events_descriptor(&self) -> &Arc<OwnDescriptor> {
        self.events.descriptor()
    }

    /// Grows with each change that can alter a forwarding decision: of a link, an address, a route
    /// or rule, or of the hardware address frames for a neighbour go to. A neighbour that becomes
    /// stale, or reachable again, with the same hardware address does not count.
    ///
    /// Only [`Netconf::process_events`] advances it.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All links, by index.
    pub fn links(&self) -> impl ExactSizeIterator<Item = &Link> {
        self.snapshot.links.values()
    }

    /// The link with this index.
    pub fn link(&self, index: u32) -> Option<&Link> {
        self.snapshot.links.get(&index)
    }

    /// Why an XDP program on a link would get packets wrong, in a few words: it is a bridge, say,
    /// or part of a bond. `None`: it would not.
    pub fn obstacle(&self, link: &Link) -> Option<String> {
        obstacle(link, |index| self.link(index))
    }

    /// What a back-end is told of a link.
    pub fn spec(&self, link: &Link) -> LinkSpec {
        upper::spec(link, self.snapshot.links.values())
    }

    /// All addresses of this host, in the order in which they became known.
    pub fn addresses(&self) -> &[Address] {
        &self.snapshot.addresses
    }

    /// The addresses of one link.
    pub fn addresses_of(&self, link_index: u32) -> impl Iterator<Item = &Address> {
        self.addresses()
            .iter()
            .filter(move |address| address.link_index == link_index)
    }

    /// The addresses of a link that packets past the kernel may have.
    pub fn usable_addresses(&self, link: &Link) -> impl Iterator<Item = IpAddr> {
        let is_big = link.big_tcp;
        let is_usable = move |it: &&Address| match it.address {
            IpAddr::V4(_) => true,
            // Segments that are longer than any packet are the kernel's.
            IpAddr::V6(_) => !it.tentative && !is_big,
        };
        let of_link = self.addresses_of(link.index).filter(is_usable);
        of_link.map(|it| it.address)
    }

    /// The link that has this very address; the first if several have (IPv6 link-local addresses).
    pub fn link_of_address(&self, address: IpAddr) -> Option<&Link> {
        let owner = self
            .addresses()
            .iter()
            .find(|known| known.address == address)?;
        self.link(owner.link_index)
    }

    /// What the kernel knows of a neighbour.
    pub fn neighbour(&self, link_index: u32, address: IpAddr) -> Option<&Neighbour> {
        self.snapshot.neighbours.get(&(link_index, address))
    }

    /// All neighbours, in no order.
    pub fn neighbours(&self) -> impl ExactSizeIterator<Item = &Neighbour> {
        self.snapshot.neighbours.values()
    }

    /// How many links, addresses and neighbours the kernel listed in a form that cannot be decoded;
    /// they are missing from the snapshot. 0 unless the kernel is much newer than this library.
    pub fn unreadable_entries(&self) -> usize {
        self.snapshot.unreadable
    }

    fn resynchronise(&mut self) -> Result<(), Error> {
        // Whatever was lost may matter, above all routes, of which there is no copy to compare.
        self.generation += 1;
        let fresh = Snapshot::read(&mut self.connection())?;
        self.snapshot.compare(&fresh, &mut self.pending);
        self.snapshot = fresh;
        self.pending.every_route();
        self.pending.resynchronised = true;
        self.lost = false;
        Ok(())
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic leaves no half-done state behind: replies are matched by number.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsFd for Netconf {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// More than a full receive buffer holds, so that everything which arrived before an overrun is
/// taken in before the configuration is read again.
const EVENTS_PER_CALL: usize = 16 * 1024;

/// RTNLGRP_* of linux/rtnetlink.h as a mask: LINK, NEIGH, IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE,
/// IPV6_IFADDR, IPV6_ROUTE, IPV6_RULE, IPV4_NETCONF, NEXTHOP. Older kernels ignore groups they do
/// not have.
const NOTIFICATION_GROUPS: u32 = group(1)
    | group(3)
    | group(5)
    | group(7)
    | group(8)
    | group(9)
    | group(11)
    | group(19)
    | group(24)
    | group(32);

const fn group(number: u32) -> u32 {
    1 << (number - 1)
}

#[cfg(test)]
mod tests;
