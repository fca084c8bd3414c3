//! Addresses as octets.

use core::net::IpAddr;

/// An address in the form of IPv6; one of IPv4 is mapped (RFC 4291 §2.5.5.2).
pub(crate) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}
