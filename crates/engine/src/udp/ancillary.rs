//! Ancillary data of received datagrams: what a program has asked to be told of each of them, and
//! the one place where a datagram's facts become control messages. In the order of `udp_recvmsg`
//! and `ip_cmsg_recv_offset` (net/ipv4).

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use dev_core::Noted;
use libc::c_int;
use links::family::Family;

use crate::sockets::control::ControlRoom;
use crate::sockets::stamps::StampWish;
use crate::udp::datagram::address_v6;

/// What a socket's options ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    bits: u32,
    stamps: StampWish,
}

impl Wants {
    const PACKET_INFO: u32 = 1;
    const TTL: u32 = 1 << 1;
    const TOS: u32 = 1 << 2;
    const DESTINATION: u32 = 1 << 3;
    const DROPS: u32 = 1 << 4;
    /// When it came: `stamps` says how.
    const STAMP: u32 = 1 << 5;
    /// `IPV6_RECVPKTINFO`, which tells of IPv4, too.
    const PACKET_INFO_V6: u32 = 1 << 9;
    /// `IPV6_RECVHOPLIMIT`
    const HOP_LIMIT: u32 = 1 << 10;
    /// `IPV6_RECVTCLASS`
    const CLASS: u32 = 1 << 11;
    /// `UDP_GRO`
    const MERGED: u32 = 1 << 12;
    /// A function of the program's is to see them first.
    const SHOWN: u32 = 1 << 13;

    /// Nothing.
    pub(super) const NONE: Self = Self {
        bits: 0,
        stamps: StampWish::NONE,
    };

    /// Asks the kernel's socket, which has the options.
    pub(super) fn read(fd: c_int, family: Family) -> Self {
        let has = |level, name| sys::option_int(fd, level, name).unwrap_or(0);
        let mut wants = Self::NONE;
        for (level, name, bits) in [
            (libc::IPPROTO_IP, libc::IP_PKTINFO, Self::PACKET_INFO),
            (libc::IPPROTO_IP, libc::IP_RECVTTL, Self::TTL),
            (libc::IPPROTO_IP, libc::IP_RECVTOS, Self::TOS),
            (
                libc::IPPROTO_IP,
                libc::IP_RECVORIGDSTADDR,
                Self::DESTINATION,
            ),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, Self::DROPS),
            (libc::IPPROTO_UDP, libc::UDP_GRO, Self::MERGED),
        ] {
            if has(level, name) != 0 {
                wants.bits |= bits;
            }
        }
        if family == Family::Inet6 {
            for (name, bits) in [
                (libc::IPV6_RECVPKTINFO, Self::PACKET_INFO_V6),
                (libc::IPV6_RECVHOPLIMIT, Self::HOP_LIMIT),
                (libc::IPV6_RECVTCLASS, Self::CLASS),
            ] {
                if has(libc::IPPROTO_IPV6, name) != 0 {
                    wants.bits |= bits;
                }
            }
        }
        wants.stamps = StampWish::read(fd);
        if wants.stamps.any() {
            wants.bits |= Self::STAMP;
        }
        wants
    }

    /// Whether anything is asked for.
    #[inline]
    pub(super) fn any(self) -> bool {
        self.bits != 0
    }

    /// Whether anything is to be told of a datagram when it is received.
    #[inline]
    pub(super) fn tells(self) -> bool {
        self.bits & !Self::SHOWN != 0
    }

    /// Whether a function of the program's is to see datagrams before calls do.
    pub(super) fn shown(self) -> bool {
        self.has(Self::SHOWN)
    }

    pub(super) fn with_shown(self, shown: bool) -> Self {
        let bits = if shown { Self::SHOWN } else { 0 };
        Self {
            bits: self.bits & !Self::SHOWN | bits,
            ..self
        }
    }

    fn has(self, bits: u32) -> bool {
        self.bits & bits == bits
    }

    /// Whether it must be found out by which address a datagram would be answered.
    pub(super) fn packet_info(self) -> bool {
        self.has(Self::PACKET_INFO)
    }

    /// Whether it must be found out when a datagram came.
    pub(super) fn stamp(self) -> bool {
        self.has(Self::STAMP)
    }

    /// What the device is to note of a datagram.
    pub(super) fn noted(self) -> Noted {
        self.stamps.noted()
    }

    /// Whether the program takes several datagrams as one.
    pub(super) fn merged(self) -> bool {
        self.has(Self::MERGED)
    }

    /// Whether the program learns how many datagrams were lost.
    pub(super) fn drops(self) -> bool {
        self.has(Self::DROPS)
    }
}

/// What the packet itself does not say of a datagram. What was not asked for when it came is 0, as
/// in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// When it came, since 1970.
    stamp_nsec: u64,
    /// The same by the device's clock.
    device_nsec: u64,
    /// Datagrams that the socket had lost before.
    drops: u32,
    /// Index of the interface by which it came.
    interface: u32,
}

impl Facts {
    /// Of a datagram that comes now. `times`: for how long it has waited in the ring, and if asked
    /// for that the time by the device's clock.
    pub(super) fn now(
        wants: Wants,
        interface: u32,
        drops: u32,
        times: impl FnOnce(bool) -> (u64, u64),
    ) -> Self {
        let mut facts = Self::default();
        if wants.has(Wants::PACKET_INFO) || wants.has(Wants::PACKET_INFO_V6) {
            facts.interface = interface;
        }
        if wants.has(Wants::DROPS) {
            facts.drops = drops;
        }
        if wants.stamp() {
            let (waited, device) = times(wants.stamps.device_times());
            facts.stamp_nsec = sys::wall_clock_nsec().saturating_sub(waited);
            facts.device_nsec = device;
        }
        facts
    }
}

impl Facts {
    /// When it came, since 1970, if that was asked for; else 0.
    pub(super) fn stamp_nsec(&self) -> u64 {
        self.stamp_nsec
    }

    /// The same by the device's clock, as far as that is known.
    pub(super) fn device_nsec(&self) -> u64 {
        self.device_nsec
    }

    /// Index of the interface by which it came, or 0.
    pub(super) fn interface(&self) -> u32 {
        self.interface
    }
}

/// What is told of the IP header and the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) source: IpAddr,
    pub(super) destination: SocketAddr,
    tos: u8,
    ttl: u8,
}

impl Headers {
    /// `packet`: from the IP header on, which has no options or extension headers.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::of_v4(packet),
            6 => Self::of_v6(packet),
            _ => None,
        }
    }

    fn of_v6(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<48>()?;
        let port = u16::from_be_bytes([header[42], header[43]]);
        Some(Self {
            source: address_v6(header, 8),
            destination: SocketAddr::new(address_v6(header, 24), port),
            tos: header[0] << 4 | header[1] >> 4,
            ttl: header[7],
        })
    }

    fn of_v4(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<28>()?;
        let address =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let port = u16::from_be_bytes([header[22], header[23]]);
        Some(Self {
            source: address(12).into(),
            destination: SocketAddrV4::new(address(16), port).into(),
            tos: header[1],
            ttl: header[8],
        })
    }
}

/// Tells the program. `answers_from`: the address by which a datagram to a group would be answered.
/// `segment_len`: the length of each datagram of several.
pub(super) fn put(
    wants: Wants,
    facts: &mut Facts,
    headers: &Headers,
    answers_from: Ipv4Addr,
    segment_len: Option<usize>,
    room: &mut ControlRoom,
) {
    if wants.has(Wants::STAMP) {
        let was_asked_for = facts.stamp_nsec != 0;
        if !was_asked_for && wants.stamps.is_always_told() {
            facts.stamp_nsec = sys::wall_clock_nsec();
        }
        let software = was_asked_for.then_some(facts.stamp_nsec);
        wants
            .stamps
            .put(facts.stamp_nsec, software, facts.device_nsec, room);
    }
    if wants.has(Wants::DROPS) && facts.drops != 0 {
        room.put(
            libc::SOL_SOCKET,
            libc::SO_RXQ_OVFL,
            &facts.drops.to_ne_bytes(),
        );
    }
    if let Some(len) = segment_len {
        let len = c_int::try_from(len).unwrap_or(c_int::MAX).to_ne_bytes();
        room.put(libc::IPPROTO_UDP, libc::UDP_GRO, &len);
    }
    if wants.has(Wants::PACKET_INFO_V6) {
        // In `ip6_datagram_recv_common_ctl` (net/ipv6/datagram.c).
        let ip = match headers.destination.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        let mut info = [0; 20];
        info[..16].copy_from_slice(&ip.octets());
        info[16..].copy_from_slice(&facts.interface.to_ne_bytes());
        room.put(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
    }
    match headers.destination {
        SocketAddr::V4(destination) => {
            put_v4(wants, facts, headers, destination, answers_from, room);
        }
        SocketAddr::V6(_) => put_v6(wants, headers, room),
    }
}

/// In `ip6_datagram_recv_specific_ctl`.
fn put_v6(wants: Wants, headers: &Headers, room: &mut ControlRoom) {
    for (bits, name, value) in [
        (Wants::HOP_LIMIT, libc::IPV6_HOPLIMIT, headers.ttl),
        (Wants::CLASS, libc::IPV6_TCLASS, headers.tos),
    ] {
        if wants.has(bits) {
            let value = c_int::from(value).to_ne_bytes();
            room.put(libc::IPPROTO_IPV6, name, &value);
        }
    }
}

/// In `ip_cmsg_recv_offset`.
fn put_v4(
    wants: Wants,
    facts: &Facts,
    headers: &Headers,
    to: SocketAddrV4,
    answers_from: Ipv4Addr,
    room: &mut ControlRoom,
) {
    let destination = to.ip().octets();
    if wants.has(Wants::PACKET_INFO) {
        let mut info = [0; 12];
        info[..4].copy_from_slice(&facts.interface.to_ne_bytes());
        if facts.interface != 0 {
            info[4..8].copy_from_slice(&answers_from.octets());
        }
        info[8..].copy_from_slice(&destination);
        room.put(libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
    }
    if wants.has(Wants::TTL) {
        let ttl = c_int::from(headers.ttl).to_ne_bytes();
        room.put(libc::IPPROTO_IP, libc::IP_TTL, &ttl);
    }
    if wants.has(Wants::TOS) {
        room.put(libc::IPPROTO_IP, libc::IP_TOS, &[headers.tos]);
    }
    if wants.has(Wants::DESTINATION) {
        let mut address = [0; 16];
        address[..2].copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
        address[2..4].copy_from_slice(&to.port().to_be_bytes());
        address[4..8].copy_from_slice(&destination);
        room.put(libc::IPPROTO_IP, libc::IP_ORIGDSTADDR, &address);
    }
}
