//! Ethernet II framing: destination, source, type; no preamble and no frame check sequence.

use core::net::IpAddr;

/// Length of an untagged Ethernet header, in bytes.
pub const HEADER_LEN: u16 = 14;

/// EtherType of IPv4 (RFC 894).
pub const TYPE_IPV4: u16 = 0x0800;

/// EtherType of IPv6 (RFC 2464).
pub const TYPE_IPV6: u16 = 0x86dd;

/// Where the EtherType is in an untagged frame.
pub const TYPE_OFFSET: usize = 12;

/// The address of a multicast group (RFC 1112 section 6.4, RFC 2464 section 7).
pub fn group_address(group: IpAddr) -> [u8; 6] {
    match group {
        IpAddr::V4(group) => {
            let [_, a, b, c] = group.octets();
            [0x01, 0x00, 0x5e, a & 0x7f, b, c]
        }
        IpAddr::V6(group) => {
            let [.., a, b, c, d] = group.octets();
            [0x33, 0x33, a, b, c, d]
        }
    }
}

/// The two addresses of an Ethernet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EthernetAddresses {
    pub source: [u8; 6],
    pub destination: [u8; 6],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_group_has_its_lower_bits() {
        let mac = |group: &str| group_address(group.parse().unwrap());
        assert_eq!(mac("239.129.2.3"), [0x01, 0x00, 0x5e, 1, 2, 3]);
        assert_eq!(mac("ff02::1:ff03:405"), [0x33, 0x33, 0xff, 3, 4, 5]);
    }
}
