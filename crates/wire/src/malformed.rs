use core::error::Error;
use core::fmt;

/// Why a received frame is not a datagram or segment that this crate can deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// The frame ends before its headers do, or before the IP header's length says.
    Truncated,
    /// The EtherType is neither IPv4 nor IPv6: a VLAN tag, for one.
    NotIp,
    /// The EtherType is not IPv4 or the version field is not 4.
    NotIpv4,
    /// The EtherType is not IPv6 or the version field is not 6.
    NotIpv6,
    /// The IPv4 header is not exactly 20 bytes long: it has options, or claims to be shorter.
    HeaderLength,
    /// The options of the IPv4 header are no list of options, or ask for a source route.
    IpOptions,
    /// The IPv4 header checksum is wrong.
    IpChecksum,
    /// The packet is a fragment (first, middle or last).
    Fragment,
    /// The IPv6 header is followed by an extension header, that of fragments excepted.
    ExtensionHeader,
    /// The packet does not carry UDP.
    NotUdp,
    /// The packet does not carry TCP.
    NotTcp,
    /// The length of the IP packet has no room for the UDP or TCP header, or disagrees with the UDP
    /// length.
    LengthMismatch,
    /// The UDP checksum is wrong, or absent in IPv6.
    UdpChecksum,
    /// The TCP checksum is wrong.
    TcpChecksum,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Truncated => "the frame is shorter than its headers say",
            Self::NotIp => "the frame does not carry an untagged IP packet",
            Self::NotIpv4 => "the frame does not carry an untagged IPv4 packet",
            Self::NotIpv6 => "the frame does not carry an untagged IPv6 packet",
            Self::HeaderLength => "the IPv4 header is not 20 bytes long",
            Self::IpOptions => "the IPv4 header's options are broken or ask for a route",
            Self::IpChecksum => "the IPv4 header checksum is wrong",
            Self::Fragment => "the packet is a fragment",
            Self::ExtensionHeader => "the IPv6 packet has an extension header",
            Self::NotUdp => "the packet does not carry UDP",
            Self::NotTcp => "the packet does not carry TCP",
            Self::LengthMismatch => "the lengths of the packet and of what it carries disagree",
            Self::UdpChecksum => "the UDP checksum is wrong",
            Self::TcpChecksum => "the TCP checksum is wrong",
        })
    }
}

impl Error for Malformed {}
