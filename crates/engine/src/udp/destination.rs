//! Where datagrams go: one entry a destination, valid until the next hop changes that it shares with other sockets.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use dev_core::Protocol;
use vma_config::rules::ProcessRules;
use wire::{EthernetAddresses, UdpTemplate};

use crate::sockets::family::{Addresses, Versions, scope_of, stays_in_host};
use crate::sockets::groups::is_looped;
use crate::sockets::header_options::HeaderOptions;
use crate::sockets::host::Host;
use crate::sockets::interface::RingLease;
use crate::sockets::network::{FlowPorts, NextHop, NextHopKey};
use crate::sockets::next_hops::SharedNextHop;
use crate::sockets::offload::{self, NotOffloaded};
use crate::sockets::reason::Reason;
use crate::sockets::rings::{Migration, RingPolicy, RingUser};
use crate::sockets::stack::Stack;
use crate::sys;
use crate::udp::send_options::{Overrides, SendOptions};

/// Destinations that an unconnected socket remembers beside the latest; beyond that it starts afresh.
const DESTINATIONS_MAX: usize = 256;
/// IP and UDP headers, in bytes.
const fn headers_len(destination: IpAddr) -> usize {
    match destination {
        IpAddr::V4(_) => 28,
        IpAddr::V6(_) => 48,
    }
}

/// The sending side of a socket, under its lock.
#[derive(Debug)]
pub(crate) struct SendState<S: Stack> {
    /// Bound address; `None` while unbound. Unspecified: the route chooses.
    pub(super) local: Option<SocketAddr>,
    /// The versions of IP that it carries.
    pub(super) versions: Versions,
    /// Peer of a connected socket.
    pub(super) peer: Option<SocketAddr>,
    /// The rules that the socket follows; `None` before it is bound.
    pub(super) rules: Option<&'static ProcessRules>,
    known: Known<SocketAddr, S>,
    /// Those of messages with control data.
    overridden: Known<(SocketAddr, Overrides), S>,
    options: SendOptions,
    /// Index of the interface that datagrams to groups leave by (`IP_MULTICAST_IF`); `None`: the route decides.
    pub(super) group_interface: Option<u32>,
    /// `IPV6_MTU`: the longest packet of IPv6 in bytes; 0: no limit.
    pub(super) packet_len_max: u32,
    /// Whether the kernel's socket may hold an error that a send call reports.
    pub(super) may_have_error: bool,
    /// What the socket's options say of headers, once they were read.
    headers: KnownHeaders,
    /// Counts how often the destinations were forgotten.
    epoch: u64,
    /// IPv4 identification of the next datagram.
    identification: u16,
    /// The tick of the clock at which the kernel's socket was last asked for an error.
    asked_at_nsec: u64,
    /// Datagrams that went through the kernel since the network was last looked at.
    kernel_messages: u32,
    /// When the socket is moved to another ring.
    pub(super) migration: Migration,
    /// Whose rings it sends by; `None`: nobody has sent yet.
    pub(super) user: Option<RingUser>,
    /// The thread that made the socket.
    creator: usize,
}

/// A thread that sends without pause may keep the internal thread from its core. So the sender itself looks now and then
/// whether the reason for which its datagrams go through the kernel has gone.
const KERNEL_MESSAGES_PER_LOOK: u32 = 16;

impl<S: Stack> Default for SendState<S> {
    fn default() -> Self {
        Self {
            local: None,
            versions: Versions::BOTH,
            peer: None,
            rules: None,
            known: Known::default(),
            overridden: Known::default(),
            options: SendOptions::default(),
            group_interface: None,
            packet_len_max: 0,
            may_have_error: false,
            headers: KnownHeaders::default(),
            epoch: 0,
            identification: 0,
            asked_at_nsec: 0,
            kernel_messages: 0,
            migration: Migration::default(),
            user: None,
            creator: 0,
        }
    }
}

impl<S: Stack> SendState<S> {
    /// The entry for an address, if it is known and still valid.
    #[inline]
    pub(super) fn find(&mut self, address: SocketAddr) -> Option<&Destination<S>> {
        self.known.find(&address)
    }

    /// The same for a message with control data.
    pub(super) fn find_overridden(
        &mut self,
        address: SocketAddr,
        overrides: Overrides,
    ) -> Option<&Destination<S>> {
        self.overridden.find(&(address, overrides))
    }

    /// Remembers a destination that was resolved in `epoch`, if that is still the present.
    pub(super) fn remember(
        &mut self,
        address: SocketAddr,
        overrides: Overrides,
        destination: Destination<S>,
        headers: KnownHeaders,
        epoch: u64,
    ) {
        if epoch != self.epoch {
            return;
        }
        self.headers = headers;
        if overrides == Overrides::default() {
            self.known.remember(address, destination);
        } else {
            self.overridden.remember((address, overrides), destination);
        }
    }

    /// Addresses of the socket.
    pub(super) fn set_addresses(&mut self, addresses: &Addresses, rules: &'static ProcessRules) {
        (self.local, self.peer, self.rules) = (Some(addresses.local), addresses.peer, Some(rules));
        self.versions = addresses.versions;
        self.may_have_error = addresses.peer.is_some() || self.options.reports_errors;
        self.forget_destinations();
    }

    /// Options of the socket.
    pub(super) fn set_options(&mut self, options: SendOptions) {
        self.options = options;
        self.may_have_error = self.peer.is_some() || options.reports_errors;
        self.forget_destinations();
    }

    pub(super) fn options(&self) -> SendOptions {
        self.options
    }

    /// Forgets everything: the socket begins another life, by the calling thread.
    pub(super) fn start_afresh(&mut self, rings: RingPolicy) {
        *self = Self {
            epoch: self.epoch + 1,
            migration: Migration::new(rings),
            creator: dev_core::lock::thread_token(),
            ..Self::default()
        };
    }

    /// Whose rings the socket sends by. At first that is whoever made it.
    #[cold]
    pub(super) fn user(&mut self, rings: RingPolicy, socket: usize) -> RingUser {
        let creator = self.creator;
        *self.user.get_or_insert_with(|| RingUser {
            thread: creator,
            ..RingUser::present(rings, socket)
        })
    }

    /// [`Migration::is_due`] has said that it is to be looked who sends. Whether the socket is the calling thread's from here on, and
    /// sends by other rings.
    pub(super) fn moves_to_caller(&mut self, rings: RingPolicy, socket: usize) -> bool {
        let own = self.user(rings, socket);
        let present = RingUser::present(rings, socket);
        // Neither thread nor core has an address.
        let key = |user| rings.key(user, Ipv4Addr::UNSPECIFIED.into());
        let moves = self.migration.moves(rings, key(own), key(present));
        if moves {
            self.user = Some(present);
            self.forget_destinations();
        }
        moves
    }

    /// Forgets every destination: an address or an option of the socket has changed.
    pub(crate) fn forget_destinations(&mut self) {
        self.known.forget();
        self.overridden.forget();
        self.headers = KnownHeaders::default();
        self.epoch += 1;
    }

    /// What the socket's options say of headers, if they were read in this epoch.
    pub(super) fn headers(&self) -> KnownHeaders {
        self.headers
    }

    /// For [`SendState::remember`], taken before addresses and options are read.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
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

    /// A message has left as so many datagrams more than one.
    pub(super) fn skip_identifications(&mut self, count: usize) {
        self.identification = self.identification.wrapping_add(count as u16);
    }
}

/// Destinations by what distinguishes them.
#[derive(Debug)]
struct Known<K, S: Stack> {
    latest: Option<(K, Destination<S>)>,
    others: HashMap<K, Destination<S>>,
}

impl<K, S: Stack> Default for Known<K, S> {
    fn default() -> Self {
        Self {
            latest: None,
            others: HashMap::new(),
        }
    }
}

impl<K: Copy + Eq + Hash, S: Stack> Known<K, S> {
    /// The entry, if it is still valid.
    #[inline]
    fn find(&mut self, key: &K) -> Option<&Destination<S>> {
        let is_latest = self.latest.as_ref().is_some_and(|latest| latest.0 == *key);
        if !is_latest {
            self.make_latest(key)?;
        }
        let latest = self.latest.as_ref().map(|latest| &latest.1);
        latest.filter(|latest| latest.is_current())
    }

    #[cold]
    fn make_latest(&mut self, key: &K) -> Option<()> {
        let wanted = self.others.remove(key)?;
        if let Some((key, previous)) = self.latest.replace((*key, wanted)) {
            self.others.insert(key, previous);
        }
        Some(())
    }

    fn remember(&mut self, key: K, destination: Destination<S>) {
        self.others.remove(&key);
        if let Some((previous_key, previous)) = self.latest.take()
            && previous_key != key
            && previous.is_current()
        {
            if self.others.len() >= DESTINATIONS_MAX {
                self.others.clear();
            }
            self.others.insert(previous_key, previous);
        }
        self.latest = Some((key, destination));
    }

    fn forget(&mut self) {
        self.latest = None;
        self.others.clear();
    }
}

/// How datagrams reach an address.
#[derive(Debug)]
pub(super) struct Destination<S: Stack> {
    /// What the way depends on, if it is more than the address and the socket.
    next_hop: Option<Arc<SharedNextHop>>,
    pub(super) way: Way<S>,
}

/// What a socket's options say of headers, of each version, as far as they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KnownHeaders {
    v4: Option<HeaderOptions>,
    v6: Option<HeaderOptions>,
}

impl KnownHeaders {
    fn towards(&mut self, fd: libc::c_int, destination: IpAddr) -> Option<HeaderOptions> {
        let known = match destination {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        };
        if known.is_none() {
            *known = HeaderOptions::read(fd, destination);
        }
        *known
    }
}

/// What a socket's options say of datagrams to groups.
#[derive(Clone, Copy, Debug)]
struct GroupOptions {
    /// `IP_MULTICAST_TTL` or `IPV6_MULTICAST_HOPS`
    ttl: u8,
    is_looped: bool,
    /// The address that was given with `IP_MULTICAST_IF`.
    source: Option<Ipv4Addr>,
    /// `IPV6_MULTICAST_IF`: index of the interface, or 0.
    interface: u32,
}

impl GroupOptions {
    fn read(fd: libc::c_int, group: IpAddr) -> Option<Self> {
        let v4 = |name| sys::option_int(fd, libc::IPPROTO_IP, name).ok();
        let v6 = |name| sys::option_int(fd, libc::IPPROTO_IPV6, name).ok();
        let is_looped = is_looped(fd)?;
        Some(match group {
            IpAddr::V4(_) => {
                // The address as it lies in memory.
                let source = Ipv4Addr::from(v4(libc::IP_MULTICAST_IF)?.to_ne_bytes());
                Self {
                    ttl: u8::try_from(v4(libc::IP_MULTICAST_TTL)?).unwrap_or(1),
                    is_looped,
                    source: Some(source).filter(|source| !source.is_unspecified()),
                    interface: 0,
                }
            }
            IpAddr::V6(_) => Self {
                ttl: u8::try_from(v6(libc::IPV6_MULTICAST_HOPS)?).unwrap_or(1),
                is_looped,
                source: None,
                interface: v6(libc::IPV6_MULTICAST_IF)?.cast_unsigned(),
            },
        })
    }
}

#[derive(Debug)]
pub(super) enum Way<S: Stack> {
    Link {
        sender: RingLease<S>,
        template: Box<UdpTemplate>,
        /// Largest payload that is sent as it is: the rest needs a look, for it is more than a packet has room for, or than
        /// `UDP_SEGMENT`.
        payload_len_max: usize,
        /// Largest payload that needs no fragmentation.
        packet_payload_max: usize,
        /// `UDP_SEGMENT` of the socket, or 0.
        segment_len: u16,
        /// What is larger than one packet may be fragmented on its way, also if the device cuts it.
        may_fragment_large: bool,
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
        asked: &Asked<'_>,
        headers: &mut KnownHeaders,
    ) -> Self {
        let mut next_hop = None;
        let address = asked.address;
        let rule = asked
            .rules
            .and_then(|rules| offload::sender_rule(rules, address));
        let way = match (rule, asked.options.kernels) {
            (Some(_), _) => Way::Kernel(Reason::Rule),
            (None, Some(option)) => {
                log::debug!("fd {fd}: {option} is an option with which the kernel sends");
                Way::Kernel(Reason::Option)
            }
            (None, None) => {
                resolve_way(host, fd, asked, headers, &mut next_hop).unwrap_or_else(Way::Kernel)
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
        Self { next_hop, way }
    }
}

/// What a destination depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) local: SocketAddr,
    /// The versions of IP that the socket carries.
    pub(super) versions: Versions,
    pub(super) address: SocketAddr,
    pub(super) rules: Option<&'a ProcessRules>,
    pub(super) options: SendOptions,
    /// `IP_MULTICAST_IF`
    pub(super) group_interface: Option<u32>,
    /// `IPV6_MTU`
    pub(super) packet_len_max: u32,
    pub(super) overrides: Overrides,
    /// Whose ring it leaves by.
    pub(super) user: RingUser,
}

fn resolve_way<S: Stack>(
    host: &Host<S>,
    fd: libc::c_int,
    asked: &Asked<'_>,
    headers: &mut KnownHeaders,
    next_hop: &mut Option<Arc<SharedNextHop>>,
) -> Result<Way<S>, Reason> {
    let Asked {
        local,
        address,
        options,
        overrides,
        ..
    } = *asked;
    let destination = address.ip();
    if destination == Ipv4Addr::BROADCAST {
        return Err(Reason::NotUnicast);
    }
    if destination.is_unspecified() || destination.is_loopback() || address.port() == 0 {
        return Err(Reason::Route);
    }
    if local.port() == 0 {
        return Err(Reason::NotBound);
    }
    if stays_in_host(destination) {
        return Err(Reason::Multicast);
    }
    if !asked.versions.carry(destination) {
        return Err(Reason::Route);
    }
    let is_v6 = destination.is_ipv6();
    if overrides.is_v6.is_some_and(|they_are| they_are != is_v6) {
        // The kernel ignores some of them.
        return Err(Reason::Message);
    }
    let headers = headers.towards(fd, destination).ok_or(Reason::Option)?;
    let group = match destination.is_multicast() {
        true => Some(GroupOptions::read(fd, destination).ok_or(Reason::Option)?),
        false => None,
    };
    // What is bound to a group sends as if it were bound to nothing.
    let bound = Some(overrides.source.unwrap_or_else(|| local.ip()))
        .filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    if bound.is_some_and(|ip| ip.is_ipv6() != is_v6) {
        return Err(Reason::Route);
    }
    let tos = overrides.tos.unwrap_or(headers.tos);
    let device = match overrides.device {
        0 => options.device,
        device => device,
    };
    let output_interface = match destination {
        IpAddr::V4(_) => group.and(asked.group_interface),
        IpAddr::V6(_) => interface_v6(address, device, group)?,
    };
    let key = NextHopKey {
        destination,
        source: bound.or_else(|| group.and_then(|group| group.source).map(IpAddr::V4)),
        tos,
        output_interface,
        flow: Some(FlowPorts {
            protocol: Protocol::Udp,
            local: local.port(),
            peer: address.port(),
        }),
    };
    let shared = next_hop.insert(host.next_hop(key));
    if shared.found.metrics.hop_limit && group.is_none() && overrides.ttl.is_none() {
        // `IP_TTL` does not say whether the program has set it.
        return Err(Reason::RouteMetric);
    }
    match shared.found.next_hop {
        NextHop::Kernel(reason) => Err(reason),
        NextHop::Link {
            link_index,
            mac,
            source,
            hop_limit,
            mtu,
            mtu_locked,
        } => {
            // In this order in `__ip_make_skb`.
            let of_socket = match group {
                Some(group) => group.ttl,
                None => headers.hop_limit(hop_limit),
            };
            let ttl = overrides.ttl.unwrap_or(of_socket);
            if let Some(options) = group {
                if ttl == 0 {
                    // Of these the kernel sends none, if the host is a member of the group.
                    return Err(Reason::Multicast);
                }
                if options.is_looped {
                    host.no_member_has(link_index, destination)?;
                }
            }
            if device != 0 && device != link_index {
                // The kernel looks for a route by this interface only.
                return Err(Reason::Route);
            }
            let interface = host.links.open(link_index)?;
            let source = SocketAddr::new(key.source.unwrap_or(source), local.port());
            let eth = EthernetAddresses {
                source: interface.mac(),
                destination: mac,
            };
            let dont_fragment = headers.dont_fragment(mtu_locked);
            let label = headers.flow_label(Protocol::Udp, (source, address));
            let template = UdpTemplate::new(eth, source, address, ttl, tos, dont_fragment)
                .with_flow_label(label);
            let mtu = match asked.packet_len_max {
                limit if is_v6 && limit != 0 => mtu.min(limit),
                _ => mtu,
            };
            let packet_payload_max = (mtu as usize).saturating_sub(headers_len(destination));
            let payload_len_max = match usize::from(options.segment_len) {
                0 => packet_payload_max,
                segment_len => packet_payload_max.min(segment_len),
            };
            Ok(Way::Link {
                sender: interface.lease(asked.user, source.ip()),
                template: Box::new(template),
                payload_len_max,
                packet_payload_max,
                segment_len: options.segment_len,
                may_fragment_large: headers.may_fragment_large(),
            })
        }
    }
}

/// The interface that datagrams of IPv6 leave by, if it is not the route that decides (`udpv6_sendmsg`, net/ipv6/udp.c). `device`: that
/// of the socket or of the message, or 0.
fn interface_v6(
    address: SocketAddr,
    device: u32,
    group: Option<GroupOptions>,
) -> Result<Option<u32>, Reason> {
    let scope = scope_of(address);
    if scope != 0 && device != 0 && scope != device {
        // An error.
        return Err(Reason::Route);
    }
    let of_group = group.map_or(0, |group| group.interface);
    let chosen = [scope, device, of_group].into_iter();
    Ok(chosen.into_iter().find(|index| *index != 0))
}
