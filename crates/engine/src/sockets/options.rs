//! What a socket option, a status flag or an ioctl means for an accelerated socket. The kernel's
//! socket has it already.

use libc::c_int;
use links::groups;

use crate::sockets::header_options::IPV6_AUTOFLOWLABEL;
use crate::sockets::stamps::{SO_TIMESTAMP_NEW, SO_TIMESTAMPING_NEW, SO_TIMESTAMPNS_NEW};

/// What an option changes on the accelerated path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing, or something that the kernel's socket does for both.
    None,
    /// How much may wait in the receive queue.
    ReceiveLimit,
    /// How long calls wait.
    Timeout,
    /// Who gets the packets.
    Flows,
    /// Which of several sockets on a port gets a packet.
    Choice,
    /// Who gets the packets, and where datagrams are sent.
    Device,
    /// What the headers of sent packets say.
    Headers,
    /// What is told of each received datagram, or how each is sent.
    Messages,
    /// How datagrams to groups are sent, which readers of the statistics see, too.
    Multicast,
    /// Which groups' datagrams the socket gets.
    Groups,
    /// Which family the socket is of.
    Family,
    /// Something that only the kernel does.
    Kernel,
}

/// What an option changes.
pub(super) fn effect(level: c_int, name: c_int) -> Effect {
    match level {
        libc::SOL_SOCKET => of_sockets(name),
        libc::IPPROTO_IP => of_ip(name),
        libc::IPPROTO_IPV6 => of_ipv6(name),
        libc::IPPROTO_UDP => of_udp(name),
        _ => Effect::Kernel,
    }
}

fn of_sockets(name: c_int) -> Effect {
    match name {
        libc::SO_RCVBUF | libc::SO_RCVBUFFORCE => Effect::ReceiveLimit,
        SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW | SO_SNDTIMEO_OLD | SO_SNDTIMEO_NEW => Effect::Timeout,
        libc::SO_REUSEPORT | libc::SO_REUSEADDR => Effect::Flows,
        libc::SO_INCOMING_CPU => Effect::Choice,
        libc::SO_BINDTODEVICE | SO_BINDTOIFINDEX => Effect::Device,
        libc::SO_TIMESTAMP
        | libc::SO_TIMESTAMPNS
        | libc::SO_TIMESTAMPING
        | SO_TIMESTAMP_NEW
        | SO_TIMESTAMPNS_NEW
        | SO_TIMESTAMPING_NEW
        | libc::SO_RXQ_OVFL
        | libc::SO_DONTROUTE
        | libc::SO_NO_CHECK
        | libc::SO_MARK
        | libc::SO_MAX_PACING_RATE
        | libc::SO_TXTIME
        // Of a sender with a rate.
        | libc::SO_SNDBUF
        | libc::SO_SNDBUFFORCE => Effect::Messages,
        // There is no queueing discipline on the way, and no VLAN tag.
        libc::SO_PRIORITY => Effect::None,
        // Each of these means nothing to a datagram socket, or is asked of the kernel's socket when
        // it matters. Messages with MSG_ZEROCOPY are the kernel's by themselves.
        libc::SO_DEBUG
        | libc::SO_BROADCAST
        | libc::SO_KEEPALIVE
        | libc::SO_OOBINLINE
        | libc::SO_LINGER
        | libc::SO_PASSCRED
        | libc::SO_RCVLOWAT
        | libc::SO_LOCK_FILTER
        | libc::SO_SELECT_ERR_QUEUE
        | libc::SO_BUSY_POLL
        | libc::SO_PREFER_BUSY_POLL
        | libc::SO_BUSY_POLL_BUDGET
        | libc::SO_ZEROCOPY
        | SO_BUF_LOCK
        | SO_TXREHASH => Effect::None,
        _ => Effect::Kernel,
    }
}

fn of_ip(name: c_int) -> Effect {
    match name {
        libc::IP_TTL | libc::IP_TOS | libc::IP_MTU_DISCOVER => Effect::Headers,
        libc::IP_PKTINFO
        | libc::IP_RECVTTL
        | libc::IP_RECVTOS
        | libc::IP_RECVORIGDSTADDR
        | libc::IP_RECVERR
        | libc::IP_OPTIONS
        | IP_UNICAST_IF => Effect::Messages,
        // They tell of fragments and of packets with options, which the kernel's socket gets.
        libc::IP_RECVOPTS | libc::IP_RETOPTS | IP_RECVFRAGSIZE => Effect::None,
        // They matter when a port is chosen or an address is not this host's, or to other kinds of
        // sockets; errors come by the kernel.
        libc::IP_FREEBIND
        | libc::IP_BIND_ADDRESS_NO_PORT
        | IP_LOCAL_PORT_RANGE
        | libc::IP_MINTTL
        | libc::IP_NODEFRAG
        | IP_RECVERR_RFC4884 => Effect::None,
        libc::IP_MULTICAST_IF | libc::IP_MULTICAST_LOOP | libc::IP_MULTICAST_TTL => {
            Effect::Multicast
        }
        libc::IP_MULTICAST_ALL => Effect::Groups,
        // Memberships are followed by themselves.
        name if groups::changes_membership(libc::IPPROTO_IP, name) => Effect::None,
        _ => Effect::Kernel,
    }
}

fn of_ipv6(name: c_int) -> Effect {
    match name {
        IPV6_ADDRFORM => Effect::Family,
        libc::IPV6_UNICAST_HOPS | libc::IPV6_TCLASS | libc::IPV6_MTU | IPV6_AUTOFLOWLABEL => {
            Effect::Headers
        }
        libc::IPV6_RECVPKTINFO
        | libc::IPV6_RECVHOPLIMIT
        | libc::IPV6_RECVTCLASS
        | libc::IPV6_RECVERR => Effect::Messages,
        libc::IPV6_MULTICAST_IF | libc::IPV6_MULTICAST_LOOP | libc::IPV6_MULTICAST_HOPS => {
            Effect::Multicast
        }
        IPV6_MULTICAST_ALL => Effect::Groups,
        // Of streams.
        IPV6_MINHOPCOUNT => Effect::None,
        name if needs_nothing_of_ipv6(name) => Effect::None,
        _ => Effect::Kernel,
    }
}

fn of_udp(name: c_int) -> Effect {
    match name {
        libc::UDP_SEGMENT | libc::UDP_GRO => Effect::Messages,
        libc::UDP_NO_CHECK6_TX => Effect::Messages,
        _ => Effect::Kernel,
    }
}

/// Makes a socket of `AF_INET6` that is connected over IPv4 one of `AF_INET`.
pub(crate) const IPV6_ADDRFORM: c_int = 1;

/// `IP_MULTICAST_ALL` of IPv6 (include/uapi/linux/in6.h).
pub(crate) const IPV6_MULTICAST_ALL: c_int = 29;

/// Drops segments that have come from afar.
pub(crate) const IPV6_MINHOPCOUNT: c_int = 73;

/// Whether an option of level `IPPROTO_IPV6` changes nothing for packets past the kernel:
/// memberships are followed by themselves, streams are in no group, and what needs fragmentation is
/// the kernel's.
///
/// `IPV6_V6ONLY` cannot be changed any more when the socket has an address, which is when it
/// counts.
pub(crate) fn needs_nothing_of_ipv6(name: c_int) -> bool {
    const IPV6_RECVERR_RFC4884: c_int = 31;
    const IPV6_RECVPATHMTU: c_int = 60;
    matches!(
        name,
        libc::IPV6_V6ONLY
            | libc::IPV6_MULTICAST_IF
            | libc::IPV6_MULTICAST_HOPS
            | libc::IPV6_MULTICAST_LOOP
            | IPV6_MULTICAST_ALL
            | libc::IPV6_MTU_DISCOVER
            | libc::IPV6_DONTFRAG
            | IPV6_RECVERR_RFC4884
            | IPV6_RECVPATHMTU
    ) || groups::changes_membership(libc::IPPROTO_IPV6, name)
}

/// Whether the kernel's socket can be asked at any time for what an option of datagram sockets has
/// become.
pub fn is_asked_for_later(level: c_int, name: c_int) -> bool {
    let is_kept_here = groups::changes_membership(level, name)
        || (level, name) == (libc::IPPROTO_IP, libc::IP_MULTICAST_IF)
        || (level, name) == (libc::IPPROTO_IPV6, libc::IPV6_MTU);
    !is_kept_here && !matches!(effect(level, name), Effect::Kernel | Effect::Choice)
}

/// Whether an option has an effect that only the kernel brings about.
pub(crate) fn needs_kernel(level: c_int, name: c_int) -> bool {
    effect(level, name) == Effect::Kernel
}

// include/uapi/asm-generic/socket.h and linux/in.h
const SO_RCVTIMEO_OLD: c_int = 20;
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_OLD: c_int = 21;
const SO_SNDTIMEO_NEW: c_int = 67;
pub(crate) const SO_BINDTOIFINDEX: c_int = 62;
/// Which buffers the program has chosen.
pub(crate) const SO_BUF_LOCK: c_int = 72;
pub(crate) const SO_TXREHASH: c_int = 74;
const IP_RECVFRAGSIZE: c_int = 25;
const IP_RECVERR_RFC4884: c_int = 26;
const IP_UNICAST_IF: c_int = 50;
pub(crate) const IP_LOCAL_PORT_RANGE: c_int = 51;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_a_meaning_here_need_the_kernel() {
        for (level, name, expected) in [
            (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, Effect::Kernel),
            (libc::SOL_SOCKET, libc::SO_PEEK_OFF, Effect::Kernel),
            (libc::SOL_SOCKET, 4711, Effect::Kernel),
            (libc::IPPROTO_IP, libc::IP_TRANSPARENT, Effect::Kernel),
            (libc::IPPROTO_UDP, libc::UDP_CORK, Effect::Kernel),
            // Datagrams of IPv6 without a checksum are none here.
            (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, Effect::Kernel),
            (77, 1, Effect::Kernel),
            (libc::SOL_SOCKET, libc::SO_TIMESTAMP, Effect::Messages),
            (libc::SOL_SOCKET, libc::SO_MARK, Effect::Messages),
            (libc::IPPROTO_IP, libc::IP_PKTINFO, Effect::Messages),
            (libc::IPPROTO_UDP, libc::UDP_SEGMENT, Effect::Messages),
            (libc::SOL_SOCKET, libc::SO_BINDTODEVICE, Effect::Device),
            (libc::SOL_SOCKET, libc::SO_SNDBUF, Effect::Messages),
            (libc::SOL_SOCKET, libc::SO_RCVTIMEO, Effect::Timeout),
            (libc::SOL_SOCKET, libc::SO_SNDTIMEO, Effect::Timeout),
            (libc::IPPROTO_IP, libc::IP_TTL, Effect::Headers),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, Effect::Headers),
            (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, Effect::Messages),
            (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, Effect::None),
            // The kernel has the labels.
            (libc::IPPROTO_IPV6, 33, Effect::Kernel),
            (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS, Effect::Kernel),
        ] {
            assert_eq!(effect(level, name), expected, "{level} {name}");
        }
    }
}
