//! What the network layer knows of a connection's way.

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
    /// The longest payload that the device cuts into segments by itself, in octets; 0 if it does not.
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
        if self.ip_header_len > 20 {
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

/// ICMP errors that concern TCP (RFC 792, RFC 1191, RFC 5927).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpError {
    NetUnreachable,
    HostUnreachable,
    ProtocolUnreachable,
    PortUnreachable,
    ParameterProblem,
    TimeExceeded,
    /// "Fragmentation needed": `mtu` is the next hop's, 0 from a router older than RFC 1191.
    PacketTooBig {
        mtu: u16,
    },
}
