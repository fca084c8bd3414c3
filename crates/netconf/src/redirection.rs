//! Packets that arrive at a link, sent out of another one: u32 filters with the action mirred
//! (tc-u32(8), tc-mirred(8)).
//!
//! Filters of one priority of a link lie in a hash table of their own, by the lower half of the
//! destination port, so that a packet is compared with few of them.

use std::net::{Ipv4Addr, SocketAddrV4};

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{
    TcAction, TcActionAttribute, TcActionGeneric, TcActionMirrorOption, TcActionOption,
    TcActionType, TcAttribute, TcFilterU32Option, TcHandle, TcMessage, TcMirror,
    TcMirrorActionType, TcOption, TcU32Key, TcU32Selector, TcU32SelectorFlags,
};

use crate::connection::Connection;
use crate::error::Error;

/// Orders about redirected packets, to the network namespace of the thread that opened it. They
/// need CAP_NET_ADMIN.
#[derive(Debug)]
pub struct Redirections {
    connection: Connection,
}

/// Packets between these addresses. Those with IP options and fragments are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    pub destination: SocketAddrV4,
    /// `None` is anybody.
    pub source: Option<SocketAddrV4>,
}

/// Where a filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FilterPlace {
    pub link_index: u32,
    /// Filters with smaller numbers come first.
    pub priority: u16,
    /// Among those with the same lower half of the destination port: 1 to
    /// [`FilterPlace::NUMBER_MAX`].
    pub number: u16,
}

impl FilterPlace {
    /// How many filters a bucket of a hash table holds.
    pub const NUMBER_MAX: u16 = 0xfff;
}

impl Redirections {
    /// # Errors
    ///
    /// If there is no socket for it.
    pub fn open() -> Result<Self, Error> {
        let connection = Connection::open()?;
        Ok(Self { connection })
    }

    /// Has arriving packets of a link go through filters.
    ///
    /// # Errors
    ///
    /// EEXIST if they do already, EPERM, or what netlink answered.
    pub fn add_ingress(&mut self, link_index: u32) -> Result<(), Error> {
        let message = RouteNetlinkMessage::NewQueueDiscipline(ingress(link_index));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.connection.order("add an ingress", flags, message)
    }

    /// Takes back [`Redirections::add_ingress`], with all filters.
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn remove_ingress(&mut self, link_index: u32) -> Result<(), Error> {
        let message = RouteNetlinkMessage::DelQueueDiscipline(ingress(link_index));
        self.connection.order("remove an ingress", 0, message)
    }

    /// Makes the hash table for filters of a priority on packets of an IP protocol.
    ///
    /// # Errors
    ///
    /// EINVAL if other filters have the priority; what netlink answered.
    pub fn add_table(&mut self, link_index: u32, priority: u16, protocol: u8) -> Result<(), Error> {
        let table = table(priority);
        self.add_filter(
            (link_index, priority, table),
            vec![TcFilterU32Option::Divisor(BUCKETS)],
        )?;
        let mut selector = selector(&[
            key(0, 0x0f00_0000, 0x0500_0000), // no options
            key(4, 0x0000_3fff, 0),           // no fragment
            key(8, 0x00ff_0000, u32::from(protocol) << 16),
        ]);
        // The bucket: the lower octet of the destination port.
        selector.hoff = 20;
        selector.hmask = 0xff;
        let to_table = vec![
            TcFilterU32Option::Link(table),
            TcFilterU32Option::Selector(selector),
        ];
        self.add_filter((link_index, priority, IN_ROOT_TABLE), to_table)
    }

    /// Removes all filters of a priority, and the table.
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn remove_table(&mut self, link_index: u32, priority: u16) -> Result<(), Error> {
        self.remove_filter((link_index, priority, 0))
    }

    /// Sends what is selected out of another link.
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn add(
        &mut self,
        place: FilterPlace,
        selection: &Selection,
        to_link: u32,
    ) -> Result<(), Error> {
        let destination = selection.destination;
        let mut keys = vec![
            key(16, u32::MAX, destination.ip().to_bits()),
            key(20, 0xffff, destination.port().into()),
        ];
        if let Some(source) = selection.source {
            keys.push(key(12, u32::MAX, source.ip().to_bits()));
            keys.push(key(20, 0xffff_0000, u32::from(source.port()) << 16));
        }
        self.add_filter(
            (place.link_index, place.priority, handle(place, selection)),
            vec![
                TcFilterU32Option::Hash(bucket(place.priority, selection)),
                TcFilterU32Option::Selector(terminal(&keys)),
                redirect(to_link),
            ],
        )
    }

    /// Takes back [`Redirections::add`].
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn remove(&mut self, place: FilterPlace, selection: &Selection) -> Result<(), Error> {
        self.remove_filter((place.link_index, place.priority, handle(place, selection)))
    }

    /// Sends all IPv4 packets out of another link, or those to an address. For a priority without a
    /// table, and taken back by [`Redirections::remove_table`].
    ///
    /// # Errors
    ///
    /// What netlink answered.
    pub fn add_all(
        &mut self,
        link_index: u32,
        priority: u16,
        destination: Option<Ipv4Addr>,
        to_link: u32,
    ) -> Result<(), Error> {
        let (mask, address) = destination.map_or((0, 0), |it| (u32::MAX, it.to_bits()));
        let options = vec![
            TcFilterU32Option::Selector(terminal(&[key(16, mask, address)])),
            redirect(to_link),
        ];
        self.add_filter((link_index, priority, IN_ROOT_TABLE), options)
    }

    fn add_filter(
        &mut self,
        place: (u32, u16, u32),
        options: Vec<TcFilterU32Option>,
    ) -> Result<(), Error> {
        let mut message = filter(place);
        let options = options.into_iter().map(TcOption::U32).collect();
        message.attributes.push(TcAttribute::Options(options));
        let message = RouteNetlinkMessage::NewTrafficFilter(message);
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.connection.order("add a filter", flags, message)
    }

    fn remove_filter(&mut self, place: (u32, u16, u32)) -> Result<(), Error> {
        let message = RouteNetlinkMessage::DelTrafficFilter(filter(place));
        self.connection.order("remove a filter", 0, message)
    }
}

fn ingress(link_index: u32) -> TcMessage {
    let mut message = TcMessage::with_index(link_index.cast_signed());
    message.header.parent = TcHandle::INGRESS;
    message.header.handle = TcHandle {
        major: u16::MAX,
        minor: 0,
    };
    let kind = TcAttribute::Kind("ingress".to_owned());
    message.attributes.push(kind);
    message
}

/// A filter with this handle, or with 0 all of the priority.
fn filter((link_index, priority, handle): (u32, u16, u32)) -> TcMessage {
    let mut message = TcMessage::with_index(link_index.cast_signed());
    // Also where the queueing discipline is clsact.
    message.header.parent = TcHandle {
        major: u16::MAX,
        minor: TcHandle::MIN_INGRESS,
    };
    message.header.handle = handle.into();
    message.header.info = u32::from(priority) << 16 | u32::from(ETH_P_IP.to_be());
    let kind = TcAttribute::Kind("u32".to_owned());
    message.attributes.push(kind);
    message
}

fn redirect(to_link: u32) -> TcFilterU32Option {
    let mut generic = TcActionGeneric::default();
    generic.action = TcActionType::Stolen;
    let mut mirror = TcMirror::default();
    mirror.generic = generic;
    mirror.eaction = TcMirrorActionType::EgressRedir;
    mirror.ifindex = to_link;
    let parameters = TcActionOption::Mirror(TcActionMirrorOption::Parms(mirror));
    let mut action = TcAction::default();
    action.attributes = vec![
        TcActionAttribute::Kind("mirred".to_owned()),
        TcActionAttribute::Options(vec![parameters]),
    ];
    TcFilterU32Option::Action(vec![action])
}

/// Compares four octets, from the beginning of the IP header.
fn key(offset: i32, mask: u32, value: u32) -> TcU32Key {
    let mut key = TcU32Key::default();
    key.off = offset;
    key.mask = mask;
    key.val = value;
    key
}

fn selector(keys: &[TcU32Key]) -> TcU32Selector {
    let mut selector = TcU32Selector::default();
    selector.nkeys = u8::try_from(keys.len()).unwrap_or(u8::MAX);
    selector.keys = keys.to_vec();
    selector
}

/// One after which an action follows.
fn terminal(keys: &[TcU32Key]) -> TcU32Selector {
    let mut selector = selector(keys);
    selector.flags = TcU32SelectorFlags::Terminal;
    selector
}

/// The handle of a hash table: twelve bits for it, eight for the bucket, twelve for the filter.
fn table(priority: u16) -> u32 {
    u32::from(priority) << 20
}

fn bucket(priority: u16, selection: &Selection) -> u32 {
    let [_, lower] = selection.destination.port().to_be_bytes();
    table(priority) | u32::from(lower) << 12
}

fn handle(place: FilterPlace, selection: &Selection) -> u32 {
    bucket(place.priority, selection) | u32::from(place.number)
}

const BUCKETS: u32 = 256;
/// The kernel begins in a table whose handle it chooses, and those of its filters.
const IN_ROOT_TABLE: u32 = 0;
const ETH_P_IP: u16 = 0x0800;

#[cfg(test)]
mod tests;
