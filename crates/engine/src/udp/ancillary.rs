//! Ancillary data of received datagrams: what a program has asked to be told of each of them, and the one place where a datagram's
//! facts become control messages. In the order of `udp_recvmsg` and `ip_cmsg_recv_offset` (net/ipv4).

use std::net::{Ipv4Addr, SocketAddrV4};

use libc::c_int;

use crate::sockets::control::ControlRoom;
use crate::sys;

/// What a socket's options ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wants {
    bits: u32,
}

impl Wants {
    const PACKET_INFO: u32 = 1;
    const TTL: u32 = 1 << 1;
    const TOS: u32 = 1 << 2;
    const DESTINATION: u32 = 1 << 3;
    const DROPS: u32 = 1 << 4;
    /// `SO_TIMESTAMP` or `SO_TIMESTAMPNS`
    const STAMP: u32 = 1 << 5;
    /// The latter.
    const STAMP_NSEC: u32 = 1 << 6;
    /// `SO_TIMESTAMPING`, of what the software receives.
    const STAMPING: u32 = 1 << 7;
    /// In the form that lasts beyond 2038.
    const STAMP_NEW: u32 = 1 << 8;

    /// Nothing.
    pub(super) const NONE: Self = Self { bits: 0 };

    /// Asks the kernel's socket, which has the options.
    pub(super) fn read(fd: c_int) -> Self {
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
        ] {
            if has(level, name) != 0 {
                wants.bits |= bits;
            }
        }
        // Each of these says yes only if it is in force itself, but for the last but one.
        for (name, bits) in [
            (libc::SO_TIMESTAMP, Self::STAMP),
            (libc::SO_TIMESTAMPNS, Self::STAMP | Self::STAMP_NSEC),
            (SO_TIMESTAMP_NEW, Self::STAMP | Self::STAMP_NEW),
            (
                SO_TIMESTAMPNS_NEW,
                Self::STAMP | Self::STAMP_NSEC | Self::STAMP_NEW,
            ),
        ] {
            if has(libc::SOL_SOCKET, name) != 0 {
                wants.bits |= bits;
            }
        }
        let software = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
        let flags = has(libc::SOL_SOCKET, libc::SO_TIMESTAMPING).cast_unsigned();
        if flags & software == software {
            wants.bits |= Self::STAMPING;
        }
        if has(libc::SOL_SOCKET, SO_TIMESTAMPING_NEW) != 0 {
            wants.bits |= Self::STAMP_NEW;
        }
        wants
    }

    /// Whether anything is asked for.
    #[inline]
    pub(super) fn any(self) -> bool {
        self.bits != 0
    }

    fn has(self, bits: u32) -> bool {
        self.bits & bits == bits
    }

    /// Whether it must be found out by which address a datagram would be answered.
    pub(super) fn packet_info(self) -> bool {
        self.has(Self::PACKET_INFO)
    }

    /// Whether the program learns how many datagrams were lost.
    pub(super) fn drops(self) -> bool {
        self.has(Self::DROPS)
    }
}

const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;

/// What the packet itself does not say of a datagram. What was not asked for when it came is 0, as in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// When it came, since 1970.
    stamp_nsec: u64,
    /// Datagrams that the socket had lost before.
    drops: u32,
    /// Index of the interface by which it came.
    interface: u32,
}

impl Facts {
    /// Of a datagram that comes now.
    pub(super) fn now(wants: Wants, interface: u32, drops: u32) -> Self {
        let mut facts = Self::default();
        if wants.has(Wants::PACKET_INFO) {
            facts.interface = interface;
        }
        if wants.has(Wants::DROPS) {
            facts.drops = drops;
        }
        if wants.has(Wants::STAMP) || wants.has(Wants::STAMPING) {
            facts.stamp_nsec = sys::wall_clock_nsec();
        }
        facts
    }
}

impl Facts {
    /// Index of the interface by which it came, or 0.
    pub(super) fn interface(&self) -> u32 {
        self.interface
    }
}

/// What is told of the IPv4 header and the ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) source: Ipv4Addr,
    pub(super) destination: SocketAddrV4,
    tos: u8,
    ttl: u8,
}

impl Headers {
    /// `packet`: from the IPv4 header on, which has no options.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<28>()?;
        let address =
            |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
        let port = u16::from_be_bytes([header[22], header[23]]);
        Some(Self {
            source: address(12),
            destination: SocketAddrV4::new(address(16), port),
            tos: header[1],
            ttl: header[8],
        })
    }
}

/// Tells the program. `answers_from`: the address by which a datagram to a group would be answered.
pub(super) fn put(
    wants: Wants,
    facts: &mut Facts,
    headers: &Headers,
    answers_from: Ipv4Addr,
    room: &mut ControlRoom,
) {
    let is_new = wants.has(Wants::STAMP_NEW);
    if wants.has(Wants::STAMP) {
        if facts.stamp_nsec == 0 {
            // It came before the option was set.
            facts.stamp_nsec = sys::wall_clock_nsec();
        }
        let (seconds, nsec) = (facts.stamp_nsec / NSEC, facts.stamp_nsec % NSEC);
        let (name, fraction) = match (wants.has(Wants::STAMP_NSEC), is_new) {
            (false, false) => (libc::SO_TIMESTAMP, nsec / 1000),
            (false, true) => (SO_TIMESTAMP_NEW, nsec / 1000),
            (true, false) => (libc::SO_TIMESTAMPNS, nsec),
            (true, true) => (SO_TIMESTAMPNS_NEW, nsec),
        };
        room.put(libc::SOL_SOCKET, name, &words::<2, 16>([seconds, fraction]));
    }
    if wants.has(Wants::STAMPING) && facts.stamp_nsec != 0 {
        let (seconds, nsec) = (facts.stamp_nsec / NSEC, facts.stamp_nsec % NSEC);
        let name = if is_new {
            SO_TIMESTAMPING_NEW
        } else {
            libc::SO_TIMESTAMPING
        };
        // Software, nothing, hardware.
        let times: [u8; 48] = words([seconds, nsec, 0, 0, 0, 0]);
        room.put(libc::SOL_SOCKET, name, &times);
    }
    if wants.has(Wants::DROPS) && facts.drops != 0 {
        room.put(
            libc::SOL_SOCKET,
            libc::SO_RXQ_OVFL,
            &facts.drops.to_ne_bytes(),
        );
    }
    let destination = headers.destination.ip().octets();
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
        address[2..4].copy_from_slice(&headers.destination.port().to_be_bytes());
        address[4..8].copy_from_slice(&destination);
        room.put(libc::IPPROTO_IP, libc::IP_ORIGDSTADDR, &address);
    }
}

const NSEC: u64 = 1_000_000_000;

fn words<const COUNT: usize, const BYTES: usize>(words: [u64; COUNT]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
