//! What a socket option, a status flag or an ioctl means for an accelerated socket. The kernel's socket has it already.

use libc::c_int;

/// What an option changes on the accelerated path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Nothing, or something that the kernel's socket does for both.
    None,
    /// How much may wait in the receive queue.
    ReceiveLimit,
    /// How long a receive call waits.
    ReceiveTimeout,
    /// Who gets the packets.
    Flows,
    /// What the headers of sent packets say.
    Headers,
    /// How multicast is sent, which readers of the statistics see.
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
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => Effect::ReceiveLimit,
        (libc::SOL_SOCKET, SO_RCVTIMEO_OLD | SO_RCVTIMEO_NEW) => Effect::ReceiveTimeout,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT | libc::SO_REUSEADDR) => Effect::Flows,
        (
            libc::SOL_SOCKET,
            libc::SO_DEBUG
            | libc::SO_DONTROUTE
            | libc::SO_BROADCAST
            | libc::SO_SNDBUF
            | libc::SO_SNDBUFFORCE
            | libc::SO_SNDTIMEO
            | libc::SO_KEEPALIVE
            | libc::SO_LINGER
            | libc::SO_RCVLOWAT
            | libc::SO_BUSY_POLL
            | libc::SO_PREFER_BUSY_POLL
            | libc::SO_BUSY_POLL_BUDGET
            | libc::SO_INCOMING_CPU,
        ) => Effect::None,
        (libc::IPPROTO_IP, libc::IP_TTL | libc::IP_TOS | libc::IP_MTU_DISCOVER) => Effect::Headers,
        // Sent through the kernel.
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF | libc::IP_MULTICAST_LOOP) => Effect::Multicast,
        (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL) => Effect::Groups,
        // Memberships are followed by themselves.
        (
            libc::IPPROTO_IP,
            libc::IP_MULTICAST_TTL
            | libc::IP_ADD_MEMBERSHIP
            | libc::IP_DROP_MEMBERSHIP
            | libc::IP_ADD_SOURCE_MEMBERSHIP
            | libc::IP_DROP_SOURCE_MEMBERSHIP,
        ) => Effect::None,
        (libc::IPPROTO_IPV6, IPV6_ADDRFORM) => Effect::Family,
        (libc::IPPROTO_IPV6, name) if is_of_ipv6_packets(name) => Effect::None,
        // The rest brings control data, filters, marks or devices into play.
        _ => Effect::Kernel,
    }
}

/// Makes a socket of `AF_INET6` that is connected over IPv4 one of `AF_INET`.
pub(crate) const IPV6_ADDRFORM: c_int = 1;

/// Whether an option of level `IPPROTO_IPV6` says nothing of the IPv4 packets of a socket of `AF_INET6`: for those the options of
/// level `IPPROTO_IP` hold (`net/ipv6/ipv6_sockglue.c`, `net/ipv4/udp.c`). What there is of IPv6 the kernel's socket does.
///
/// `IPV6_V6ONLY` cannot be changed any more when the socket has an address, which is when it counts.
pub(crate) fn is_of_ipv6_packets(name: c_int) -> bool {
    const IPV6_2292HOPLIMIT: c_int = 8;
    const IPV6_FLOWINFO: c_int = 11;
    const IPV6_MULTICAST_ALL: c_int = 29;
    const IPV6_RECVERR_RFC4884: c_int = 31;
    const IPV6_FLOWLABEL_MGR: c_int = 32;
    const IPV6_FLOWINFO_SEND: c_int = 33;
    const MCAST_JOIN_GROUP: c_int = 42;
    const MCAST_MSFILTER: c_int = 48;
    const IPV6_RECVPATHMTU: c_int = 60;
    const IPV6_AUTOFLOWLABEL: c_int = 70;
    const IPV6_ADDR_PREFERENCES: c_int = 72;
    const IPV6_MINHOPCOUNT: c_int = 73;
    matches!(
        name,
        libc::IPV6_V6ONLY
            | libc::IPV6_UNICAST_HOPS
            | libc::IPV6_MULTICAST_IF
            | libc::IPV6_MULTICAST_HOPS
            | libc::IPV6_MULTICAST_LOOP
            | IPV6_MULTICAST_ALL
            | libc::IPV6_ADD_MEMBERSHIP
            | libc::IPV6_DROP_MEMBERSHIP
            | MCAST_JOIN_GROUP
            ..=MCAST_MSFILTER
                | libc::IPV6_MTU_DISCOVER
                | libc::IPV6_MTU
                | libc::IPV6_DONTFRAG
                | libc::IPV6_TCLASS
                | IPV6_FLOWINFO
                | IPV6_FLOWINFO_SEND
                | IPV6_FLOWLABEL_MGR
                | IPV6_AUTOFLOWLABEL
                | IPV6_ADDR_PREFERENCES
                | IPV6_MINHOPCOUNT
                | libc::IPV6_RECVERR
                | IPV6_RECVERR_RFC4884
                | libc::IPV6_RECVHOPLIMIT
                | IPV6_2292HOPLIMIT
                | libc::IPV6_RECVTCLASS
                | IPV6_RECVPATHMTU
    )
}

/// Whether an option has an effect that only the kernel brings about.
pub(crate) fn needs_kernel(level: c_int, name: c_int) -> bool {
    effect(level, name) == Effect::Kernel
}

const SO_RCVTIMEO_OLD: c_int = 20;
const SO_RCVTIMEO_NEW: c_int = 66;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_a_meaning_here_need_the_kernel() {
        assert_eq!(effect(libc::SOL_SOCKET, libc::SO_TIMESTAMP), Effect::Kernel);
        assert_eq!(
            effect(libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
            Effect::Kernel
        );
        assert_eq!(
            effect(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
            Effect::Kernel
        );
        assert_eq!(effect(libc::IPPROTO_IP, libc::IP_PKTINFO), Effect::Kernel);
        assert_eq!(effect(libc::IPPROTO_UDP, 103), Effect::Kernel);
        assert_eq!(effect(libc::SOL_SOCKET, libc::SO_SNDBUF), Effect::None);
        assert_eq!(
            effect(libc::SOL_SOCKET, libc::SO_RCVTIMEO),
            Effect::ReceiveTimeout
        );
        assert_eq!(effect(libc::IPPROTO_IP, libc::IP_TTL), Effect::Headers);
        let six = |name| effect(libc::IPPROTO_IPV6, name);
        assert_eq!(six(libc::IPV6_UNICAST_HOPS), Effect::None);
        // Tells of the destination of IPv4 datagrams, too.
        assert_eq!(six(libc::IPV6_RECVPKTINFO), Effect::Kernel);
    }
}
