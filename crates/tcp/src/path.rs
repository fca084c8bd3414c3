//! What the network layer knows of a connection's way.

use wire::ipv6;
use wire::tcp::MIN_HEADER_LEN;

use crate::{SeqNumber, mss};

pub(crate) mod search;

/// The way to the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The largest packet, IP header included, in octets.
    pub mtu: u16,
    /// Length of the IP header, in octets: 20 or 40.
    pub ip_header_len: u16,
    /// The longest payload that the device cuts into segments by itself, in octets; 0 if it does
    /// not.
    pub max_offload_len: u32,
}

impl Path {
    /// Through a device that does not segment.
    #[must_use]
    pub const fn ipv4(mtu: u16) -> Self {
        Self {
            mtu,
            ip_header_len: 20,
            max_offload_len: 0,
        }
    }

    /// The same over IPv6.
    #[must_use]
    pub const fn ipv6(mtu: u16) -> Self {
        Self {
            mtu,
            ip_header_len: 40,
            max_offload_len: 0,
        }
    }

    pub(crate) const fn is_ipv6(&self) -> bool {
        self.ip_header_len > 20
    }

    /// No path takes less: `net.ipv4.route.min_pmtu` of Linux, and RFC 8200 §5.
    pub(crate) const fn min_mtu(&self) -> u16 {
        if self.is_ipv6() { ipv6::MIN_MTU } else { 552 }
    }

    /// The MSS to announce (RFC 9293 §3.7.1, RFC 6691): options are not subtracted.
    #[must_use]
    pub const fn mss(&self) -> u16 {
        let mss = self
            .mtu
            .saturating_sub(self.ip_header_len)
            .saturating_sub(MIN_HEADER_LEN);
        if mss < mss::MIN_ANNOUNCED {
            mss::MIN_ANNOUNCED
        } else {
            mss
        }
    }

    /// The MSS of a peer that announces none (RFC 9293 §3.7.1).
    pub(crate) const fn default_mss(&self) -> u16 {
        if self.is_ipv6() {
            mss::DEFAULT_IPV6
        } else {
            mss::DEFAULT_IPV4
        }
    }
}

/// What an attacker must not be able to guess; from the flow and a secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// The initial sequence number (RFC 6528).
    pub iss: SeqNumber,
    /// Added to the clock in the timestamps option (RFC 7323 §5.4).
    pub timestamp_offset: u32,
}

/// ICMP errors that concern TCP (RFC 792, RFC 1191, RFC 4443, RFC 8201, RFC 5927).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    NetUnreachable,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    /// Of IPv6: by a filter, a policy or a route.
    Prohibited,
    ParameterProblem,
    TimeExceeded,
    /// "Fragmentation needed": `mtu` is the next hop's, 0 from a router older than RFC 1191.
    PacketTooBig {
        mtu: u16,
    },
}

impl IcmpError {
    /// What a type and code of ICMP say, as Linux reads them (`icmp_err_convert`); `mtu` is that of
    /// the next hop. `None`: nothing that concerns TCP.
    #[must_use]
    pub const fn from_icmp(kind: u8, code: u8, mtu: u16) -> Option<Self> {
        Some(match (kind, code) {
            (3, 2) => Self::ProtocolUnreachable,
            (3, 3) => Self::PortUnreachable,
            (3, 4) => Self::PacketTooBig { mtu },
            (3, 0 | 6 | 9 | 11) => Self::NetUnreachable,
            (3, 1 | 5 | 7 | 8 | 10 | 12..=15) => Self::HostUnreachable,
            (11, _) => Self::TimeExceeded,
            (12, _) => Self::ParameterProblem,
            _ => return None,
        })
    }

    /// The same of ICMPv6 (RFC 4443 §3, `icmpv6_err_convert`).
    #[must_use]
    pub const fn from_icmpv6(kind: u8, code: u8, mtu: u32) -> Option<Self> {
        Some(match (kind, code) {
            (1, 0) => Self::NetUnreachable,
            (1, 1 | 5 | 6) => Self::Prohibited,
            (1, 2 | 3) => Self::HostUnreachable,
            (1, 4) => Self::PortUnreachable,
            (2, _) => Self::PacketTooBig {
                mtu: if mtu > u16::MAX as u32 {
                    u16::MAX
                } else {
                    (mtu & 0xffff) as u16
                },
            },
            (3, _) => Self::TimeExceeded,
            (1 | 4, _) => Self::ParameterProblem,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn icmpv6_is_read_as_linux_does() {
        for ((kind, code, mtu), expected) in [
            ((1, 0, 0), Some(IcmpError::NetUnreachable)),
            ((1, 1, 0), Some(IcmpError::Prohibited)),
            ((1, 2, 0), Some(IcmpError::HostUnreachable)),
            ((1, 3, 0), Some(IcmpError::HostUnreachable)),
            ((1, 4, 0), Some(IcmpError::PortUnreachable)),
            ((1, 5, 0), Some(IcmpError::Prohibited)),
            ((1, 6, 0), Some(IcmpError::Prohibited)),
            ((1, 7, 0), Some(IcmpError::ParameterProblem)),
            ((2, 0, 1400), Some(IcmpError::PacketTooBig { mtu: 1400 })),
            (
                (2, 0, 1 << 20),
                Some(IcmpError::PacketTooBig { mtu: 65_535 }),
            ),
            ((3, 0, 0), Some(IcmpError::TimeExceeded)),
            ((4, 1, 0), Some(IcmpError::ParameterProblem)),
            ((128, 0, 0), None),
            ((135, 0, 0), None),
        ] {
            let read = IcmpError::from_icmpv6(kind, code, mtu);
            assert_eq!(read, expected, "{kind} {code}");
        }
    }

    #[test]
    fn an_ipv6_packet_has_40_octets_of_header() {
        assert_eq!(
            (Path::ipv6(1500).mss(), Path::ipv4(1500).mss()),
            (1440, 1460)
        );
        assert_eq!(Path::ipv6(1500).default_mss(), 1220);
    }
}
