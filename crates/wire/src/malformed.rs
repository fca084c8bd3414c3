use core::error::Error;
use core::fmt;

/// Why a received frame is not a datagram or segment that this crate can deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Malformed {
    /// The frame ends before its headers do, or before the IPv4 total length says.
    Truncated,
    /// The EtherType is not IPv4 (a VLAN tag included) or the version field is not 4.
    NotIpv4,
    /// The IPv4 header is not exactly 20 bytes long: it has options, or claims to be shorter.
    HeaderLength,
    /// The IPv4 header checksum is wrong.
    IpChecksum,
    /// The packet is a fragment (first, middle or last).
    Fragment,
    /// The IPv4 protocol is not UDP.
    NotUdp,
    /// The IPv4 protocol is not TCP.
    NotTcp,
    /// The IPv4 total length has no room for the UDP or TCP header, or disagrees with the UDP length.
    LengthMismatch,
    /// The UDP checksum is wrong.
    UdpChecksum,
    /// The TCP checksum is wrong.
    TcpChecksum,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Truncated => "the frame is shorter than its headers say",
            Self::NotIpv4 => "the frame does not carry an untagged IPv4 packet",
            Self::HeaderLength => "the IPv4 header is not 20 bytes long",
            Self::IpChecksum => "the IPv4 header checksum is wrong",
            Self::Fragment => "the IPv4 packet is a fragment",
            Self::NotUdp => "the IPv4 packet does not carry UDP",
            Self::NotTcp => "the IPv4 packet does not carry TCP",
            Self::LengthMismatch => {
                "the lengths of the IPv4 packet and of what it carries disagree"
            }
            Self::UdpChecksum => "the UDP checksum is wrong",
            Self::TcpChecksum => "the TCP checksum is wrong",
        })
    }
}

impl Error for Malformed {}
