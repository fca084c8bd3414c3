//! Where datagrams go: one resolved entry a destination, valid as long as the network's configuration does not change.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use config::rules::ProcessRules;
use ring::Backend;
use wire::{EthernetAddresses, UdpTemplate};

use crate::engine::Engine;
use crate::interface::Interface;
use crate::network::NextHop;
use crate::offload::{self, Refusal};
use crate::reason::Reason;
use crate::sys;

/// Destinations that an unconnected socket remembers beside the latest; beyond that it starts afresh.
const DESTINATIONS_MAX: usize = 256;
/// IPv4 and UDP headers.
const IP_UDP_HEADERS: usize = 28;

/// The sending side of a socket, under its lock.
#[derive(Debug)]
pub(crate) struct SendState<B: Backend> {
    /// Bound address; `None` while unbound. Unspecified: the route chooses.
    pub(super) local: Option<SocketAddrV4>,
    /// Peer of a connected socket.
    pub(super) peer: Option<SocketAddrV4>,
    /// The rules that the socket follows; `None` before it is bound.
    pub(super) rules: Option<&'static ProcessRules>,
    latest: Option<Destination<B>>,
    others: HashMap<SocketAddrV4, Destination<B>>,
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

impl<B: Backend> Default for SendState<B> {
    fn default() -> Self {
        Self {
            local: None,
            peer: None,
            rules: None,
            latest: None,
            others: HashMap::new(),
            epoch: 0,
            identification: 0,
            asked_at_nsec: 0,
            kernel_messages: 0,
        }
    }
}

impl<B: Backend> SendState<B> {
    /// The entry for an address, if it is known and was resolved at `generation`.
    #[inline]
    pub(super) fn find(
        &mut self,
        address: SocketAddrV4,
        generation: u64,
    ) -> Option<&Destination<B>> {
        let known = self
            .latest
            .as_ref()
            .is_some_and(|latest| latest.address == address);
        if !known {
            self.make_latest(address)?;
        }
        self.latest
            .as_ref()
            .filter(|latest| latest.generation == generation)
    }

    #[cold]
    fn make_latest(&mut self, address: SocketAddrV4) -> Option<()> {
        let wanted = self.others.remove(&address)?;
        if let Some(previous) = self.latest.replace(wanted) {
            self.others.insert(previous.address, previous);
        }
        Some(())
    }

    /// Remembers a destination that was resolved in `epoch`, if that is still the present.
    pub(super) fn remember(&mut self, destination: Destination<B>, epoch: u64) {
        if epoch != self.epoch {
            return;
        }
        self.others.remove(&destination.address);
        if let Some(previous) = self.latest.take()
            && previous.address != destination.address
            && previous.generation == destination.generation
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
        self.epoch += 1;
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
}

/// How datagrams reach an address.
#[derive(Debug)]
pub(super) struct Destination<B: Backend> {
    pub(super) address: SocketAddrV4,
    generation: u64,
    pub(super) way: Way<B>,
}

#[derive(Debug)]
pub(super) enum Way<B: Backend> {
    Link {
        interface: &'static Interface<B>,
        template: Box<UdpTemplate>,
        /// Largest payload that needs no fragmentation.
        payload_len_max: usize,
    },
    Kernel(Reason),
}

impl<B: Backend> Destination<B> {
    /// Asks the network. Takes a few system calls; no lock may be held.
    pub(super) fn resolve(
        engine: &Engine<B>,
        fd: libc::c_int,
        local: SocketAddrV4,
        address: SocketAddrV4,
        rules: Option<&ProcessRules>,
    ) -> Self {
        // Taken first: a change during the look-ups makes the entry outdated, not wrong for good.
        let generation = engine.network_generation();
        let rule = rules.and_then(|rules| offload::sender_rule(rules, address));
        let way = match rule {
            Some(_) => Way::Kernel(Reason::Rule),
            None => resolve_way(engine, fd, local, address).unwrap_or_else(Way::Kernel),
        };
        if let Way::Kernel(reason) = &way {
            let refusal = Refusal {
                reason: *reason,
                rule,
            };
            log::debug!("fd {fd}: datagrams to {address} go through the kernel: {refusal}");
            engine.count_reason(*reason);
        }
        Self {
            address,
            generation,
            way,
        }
    }
}

fn resolve_way<B: Backend>(
    engine: &Engine<B>,
    fd: libc::c_int,
    local: SocketAddrV4,
    address: SocketAddrV4,
) -> Result<Way<B>, Reason> {
    let destination = *address.ip();
    if !is_unicast(destination) || address.port() == 0 || local.port() == 0 {
        return Err(Reason::NotUnicast);
    }
    let option = |level, name| sys::option_int(fd, level, name).map_err(|_| Reason::Option);
    let ttl = option(libc::IPPROTO_IP, libc::IP_TTL)?;
    let tos = option(libc::IPPROTO_IP, libc::IP_TOS)?;
    let discover = option(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER)?;
    let (ttl, tos) = (
        u8::try_from(ttl).unwrap_or(64),
        u8::try_from(tos).unwrap_or(0),
    );
    let bound = Some(*local.ip()).filter(|ip| !ip.is_unspecified());
    match engine.network().next_hop(destination, bound, tos) {
        NextHop::Kernel(reason) => Err(reason),
        NextHop::Link {
            link_index,
            mac,
            source,
            mtu,
        } => {
            let interface = engine.open_interface(link_index)?;
            let source = SocketAddrV4::new(bound.unwrap_or(source), local.port());
            let eth = EthernetAddresses {
                source: interface.mac(),
                destination: mac,
            };
            let dont_fragment = matches!(
                discover,
                libc::IP_PMTUDISC_WANT | libc::IP_PMTUDISC_DO | libc::IP_PMTUDISC_PROBE
            );
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

fn is_unicast(address: Ipv4Addr) -> bool {
    !(address.is_multicast()
        || address.is_broadcast()
        || address.is_unspecified()
        || address.is_loopback())
}
