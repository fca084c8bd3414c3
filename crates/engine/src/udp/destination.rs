//! Where datagrams go: one entry a destination, valid until the next hop changes that it shares with other sockets.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use vma_config::rules::ProcessRules;
use wire::{EthernetAddresses, UdpTemplate};

use crate::sockets::host::Host;
use crate::sockets::interface::Interface;
use crate::sockets::network::{NextHop, NextHopKey};
use crate::sockets::next_hops::SharedNextHop;
use crate::sockets::offload::{self, NotOffloaded};
use crate::sockets::reason::Reason;
use crate::sockets::stack::Stack;
use crate::sys;

/// Destinations that an unconnected socket remembers beside the latest; beyond that it starts afresh.
const DESTINATIONS_MAX: usize = 256;
/// IPv4 and UDP headers.
const IP_UDP_HEADERS: usize = 28;

/// The sending side of a socket, under its lock.
#[derive(Debug)]
pub(crate) struct SendState<S: Stack> {
    /// Bound address; `None` while unbound. Unspecified: the route chooses.
    pub(super) local: Option<SocketAddrV4>,
    /// Peer of a connected socket.
    pub(super) peer: Option<SocketAddrV4>,
    /// The rules that the socket follows; `None` before it is bound.
    pub(super) rules: Option<&'static ProcessRules>,
    /// Index of the interface that datagrams to groups leave by (`IP_MULTICAST_IF`); `None`: the route decides.
    pub(super) group_interface: Option<u32>,
    latest: Option<Destination<S>>,
    others: HashMap<SocketAddrV4, Destination<S>>,
    /// What the socket's options say of headers, once they were read.
    headers: Option<HeaderOptions>,
    /// Counts how often the destinations were forgotten.
    epoch: u64,
    /// IPv4 identification of the next datagram.
    identification: u16,
    /// The tick of the clock at which the kernel's socket was last asked for an error.
    asked_at_nsec: u64,
    /// Datagrams that went through the kernel since the network was last looked at.
    kernel_messages: u32,
}

/// A thread that sends without pause may keep the internal thread from its core. So the sender itself looks now and then
/// whether the reason for which its datagrams go through the kernel has gone.
const KERNEL_MESSAGES_PER_LOOK: u32 = 16;

impl<S: Stack> Default for SendState<S> {
    fn default() -> Self {
        Self {
            local: None,
            peer: None,
            rules: None,
            group_interface: None,
            latest: None,
            others: HashMap::new(),
            headers: None,
            epoch: 0,
            identification: 0,
            asked_at_nsec: 0,
            kernel_messages: 0,
        }
    }
}

impl<S: Stack> SendState<S> {
    /// The entry for an address, if it is known and still valid.
    #[inline]
    pub(super) fn find(&mut self, address: SocketAddrV4) -> Option<&Destination<S>> {
        let known = self
            .latest
            .as_ref()
            .is_some_and(|latest| latest.address == address);
        if !known {
            self.make_latest(address)?;
        }
        self.latest.as_ref().filter(|latest| latest.is_current())
    }

    #[cold]
    fn make_latest(&mut self, address: SocketAddrV4) -> Option<()> {
        let wanted = self.others.remove(&address)?;
        if let Some(previous) = self.latest.replace(wanted) {
            self.others.insert(previous.address, previous);
        }
        Some(())
    }

    /// Remembers a destination, if the socket is still what it was when that was resolved.
    pub(super) fn remember(&mut self, destination: Destination<S>, origin: Origin) {
        if origin.epoch != self.epoch {
            return;
        }
        self.headers = origin.headers;
        self.others.remove(&destination.address);
        if let Some(previous) = self.latest.take()
            && previous.address != destination.address
            && previous.is_current()
        {
            if self.others.len() >= DESTINATIONS_MAX {
                self.others.clear();
            }
            self.others.insert(previous.address, previous);
        }
        self.latest = Some(destination);
    }

    /// Forgets everything: the socket begins another life.
    pub(super) fn start_afresh(&mut self) {
        *self = Self {
            epoch: self.epoch + 1,
            ..Self::default()
        };
    }

    /// Forgets every destination: an address or an option of the socket has changed.
    pub(crate) fn forget_destinations(&mut self) {
        self.latest = None;
        self.others.clear();
        self.headers = None;
        self.epoch += 1;
    }

    /// What of the socket decides about ways, taken before options are read. `None`: it has no address.
    pub(super) fn origin(&self) -> Option<Origin> {
        Some(Origin {
            local: self.local?,
            rules: self.rules,
            group_interface: self.group_interface,
            headers: self.headers,
            epoch: self.epoch,
        })
    }

    /// Whether the clock has ticked since the last call: a few milliseconds.
    #[inline]
    pub(super) fn tick_has_passed(&mut self) -> bool {
        let now = sys::tick_nsec();
        std::mem::replace(&mut self.asked_at_nsec, now) != now
    }

    /// Counts a datagram that goes through the kernel; says whether to look at the network.
    pub(super) fn counts_kernel_message(&mut self) -> bool {
        self.kernel_messages += 1;
        let look = self.kernel_messages >= KERNEL_MESSAGES_PER_LOOK;
        if look {
            self.kernel_messages = 0;
        }
        look
    }

    #[inline]
    pub(super) fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }
}

/// What of a socket decides about the ways of its datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    local: SocketAddrV4,
    rules: Option<&'static ProcessRules>,
    group_interface: Option<u32>,
    /// Read when they are needed.
    headers: Option<HeaderOptions>,
    epoch: u64,
}

/// How datagrams reach an address.
#[derive(Debug)]
pub(super) struct Destination<S: Stack> {
    pub(super) address: SocketAddrV4,
    /// What the way depends on, if it is more than the address and the socket.
    next_hop: Option<Arc<SharedNextHop>>,
    pub(super) way: Way<S>,
}

/// What a socket's options say of the headers that it sends.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeaderOptions {
    ttl: u8,
    tos: u8,
    /// `IP_MTU_DISCOVER`
    mtu_discover: libc::c_int,
}

impl HeaderOptions {
    fn read(fd: libc::c_int) -> Option<Self> {
        let option = |name| sys::option_int(fd, libc::IPPROTO_IP, name).ok();
        Some(Self {
            ttl: u8::try_from(option(libc::IP_TTL)?).unwrap_or(64),
            tos: u8::try_from(option(libc::IP_TOS)?).unwrap_or(0),
            mtu_discover: option(libc::IP_MTU_DISCOVER)?,
        })
    }

    /// Whether packets have the bit "don't fragment" (`ip_dont_fragment`, `__ip_make_skb`).
    fn dont_fragment(self, mtu_locked: bool) -> bool {
        match self.mtu_discover {
            libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE => true,
            libc::IP_PMTUDISC_WANT => !mtu_locked,
            _ => false,
        }
    }
}

/// What a socket's options say of datagrams to groups.
#[derive(Clone, Copy, Debug)]
struct GroupOptions {
    /// `IP_MULTICAST_TTL`
    ttl: u8,
    /// `IP_MULTICAST_LOOP`
    is_looped: bool,
    /// The address that was given with `IP_MULTICAST_IF`.
    source: Option<Ipv4Addr>,
}

impl GroupOptions {
    fn read(fd: libc::c_int) -> Option<Self> {
        let option = |name| sys::option_int(fd, libc::IPPROTO_IP, name).ok();
        // The address as it lies in memory.
        let source = Ipv4Addr::from(option(libc::IP_MULTICAST_IF)?.to_ne_bytes());
        Some(Self {
            ttl: u8::try_from(option(libc::IP_MULTICAST_TTL)?).unwrap_or(1),
            is_looped: option(libc::IP_MULTICAST_LOOP)? != 0,
            source: Some(source).filter(|source| !source.is_unspecified()),
        })
    }
}

#[derive(Debug)]
pub(super) enum Way<S: Stack> {
    Link {
        interface: &'static Interface<S>,
        template: Box<UdpTemplate>,
        /// Largest payload that needs no fragmentation.
        payload_len_max: usize,
    },
    Kernel(Reason),
}

impl<S: Stack> Destination<S> {
    /// Whether it is still known where the datagrams go.
    #[inline]
    fn is_current(&self) -> bool {
        self.next_hop.as_ref().is_none_or(|hop| hop.is_current())
    }

    /// Datagrams do not fit: the kernel may know of a larger path MTU by now, and tells of none.
    #[cold]
    pub(super) fn expire(&self) {
        if let Some(next_hop) = &self.next_hop {
            next_hop.expire();
        }
    }

    /// Asks the network, if no other socket has. May take a few system calls; no lock may be held. Reads the options if they are
    /// not known.
    pub(super) fn resolve(
        host: &Host<S>,
        fd: libc::c_int,
        origin: &mut Origin,
        address: SocketAddrV4,
    ) -> Self {
        let mut next_hop = None;
        let rules = origin.rules;
        let rule = rules.and_then(|rules| offload::sender_rule(rules, address));
        let way = match rule {
            Some(_) => Way::Kernel(Reason::Rule),
            None => {
                resolve_way(host, fd, origin, address, &mut next_hop).unwrap_or_else(Way::Kernel)
            }
        };
        if let Way::Kernel(reason) = &way {
            let refusal = NotOffloaded {
                reason: *reason,
                rule,
            };
            log::debug!("fd {fd}: datagrams to {address} go through the kernel: {refusal}");
            host.count_reason(*reason);
        }
        Self {
            address,
            next_hop,
            way,
        }
    }
}

fn resolve_way<S: Stack>(
    host: &Host<S>,
    fd: libc::c_int,
    origin: &mut Origin,
    address: SocketAddrV4,
    next_hop: &mut Option<Arc<SharedNextHop>>,
) -> Result<Way<S>, Reason> {
    let (local, destination) = (origin.local, *address.ip());
    if destination.is_broadcast() {
        return Err(Reason::NotUnicast);
    }
    if destination.is_unspecified() || destination.is_loopback() || address.port() == 0 {
        return Err(Reason::Route);
    }
    if local.port() == 0 {
        return Err(Reason::NotBound);
    }
    origin.headers = origin.headers.or_else(|| HeaderOptions::read(fd));
    let headers = origin.headers.ok_or(Reason::Option)?;
    let group = match destination.is_multicast() {
        true => Some(GroupOptions::read(fd).ok_or(Reason::Option)?),
        false => None,
    };
    if group.is_some_and(|group| group.ttl == 0) {
        // Of these the kernel sends none, if the host is a member of the group.
        return Err(Reason::Multicast);
    }
    // What is bound to a group sends as if it were bound to nothing.
    let bound = Some(*local.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    let key = NextHopKey {
        destination,
        source: bound.or_else(|| group.and_then(|group| group.source)),
        tos: headers.tos,
        output_interface: group.and(origin.group_interface),
    };
    let shared = next_hop.insert(host.next_hop(key));
    match shared.found.next_hop {
        NextHop::Kernel(reason) => Err(reason),
        NextHop::Link {
            link_index,
            mac,
            source,
            mtu,
            mtu_locked,
        } => {
            if group.is_some_and(|group| group.is_looped) {
                host.no_member_has(link_index, destination)?;
            }
            let interface = host.links.open(link_index)?;
            let source = SocketAddrV4::new(key.source.unwrap_or(source), local.port());
            let eth = EthernetAddresses {
                source: interface.mac(),
                destination: mac,
            };
            let dont_fragment = headers.dont_fragment(mtu_locked);
            let ttl = group.map_or(headers.ttl, |group| group.ttl);
            let tos = headers.tos;
            let template = UdpTemplate::new(eth, source, address, ttl, tos, dont_fragment);
            let payload_len_max = (mtu as usize).saturating_sub(IP_UDP_HEADERS);
            Ok(Way::Link {
                interface,
                template: Box::new(template),
                payload_len_max,
            })
        }
    }
}
