use core::net::SocketAddr;

use crate::EthernetAddresses;
use crate::checksum;
use crate::ip::{Addresses, Addressing, Headers};

/// What templates of UDP and TCP have in common: the Ethernet and IP headers and the ports of a
/// flow, and their part of the checksum.
#[derive(Clone, Debug)]
pub(crate) struct FlowHeaders {
    pub(crate) ip: Headers,
    pub(crate) ports: [u8; 4],
    /// Partial sum of the pseudo header, all lengths zero, and of the ports.
    pub(crate) sum: u32,
}

impl FlowHeaders {
    /// Flow label and scope of the addresses do not matter; one of IPv4 beside one of IPv6 is
    /// mapped.
    pub(crate) fn new(
        protocol: u8,
        eth: EthernetAddresses,
        (source, destination): (SocketAddr, SocketAddr),
        (ttl, tos): (u8, u8),
        dont_fragment: bool,
    ) -> Self {
        let ip = Headers::new(&Addressing {
            eth,
            addresses: Addresses::new(source.ip(), destination.ip()),
            protocol,
            ttl,
            tos,
            dont_fragment,
        });
        let [source_high, source_low] = source.port().to_be_bytes();
        let [destination_high, destination_low] = destination.port().to_be_bytes();
        let ports = [source_high, source_low, destination_high, destination_low];
        Self {
            sum: checksum::sum(&ports, ip.pseudo_header()),
            ip,
            ports,
        }
    }
}
