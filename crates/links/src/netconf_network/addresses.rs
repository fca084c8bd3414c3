//! Addresses of interfaces.

use std::net::{IpAddr, Ipv4Addr};

use netconf::{Link, Netconf};

pub(super) fn usable_addresses(netconf: &Netconf, link: &Link) -> Vec<IpAddr> {
    netconf.usable_addresses(link).collect()
}

pub(super) fn ipv4(address: &netconf::Address) -> Option<Ipv4Addr> {
    match address.address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

/// The broadcast address of the subnet, if it has one (RFC 3021: those of 31 bits have none).
pub(super) fn broadcast(address: &netconf::Address) -> Option<Ipv4Addr> {
    let host_bits = 32_u32.checked_sub(address.prefix_len.into())?;
    let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
    ipv4(address)
        .filter(|_| host_bits >= 2)
        .map(|address| Ipv4Addr::from(u32::from(address) | !mask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_broadcast_address_ends_the_subnet() {
        let of = |prefix_len, address: [u8; 4]| {
            broadcast(&netconf::Address::new(
                1,
                Ipv4Addr::from(address).into(),
                prefix_len,
            ))
        };
        assert_eq!(of(24, [10, 77, 0, 2]), Some([10, 77, 0, 255].into()));
        assert_eq!(of(20, [10, 77, 0, 2]), Some([10, 77, 15, 255].into()));
        assert_eq!(of(30, [10, 77, 0, 2]), Some([10, 77, 0, 3].into()));
        assert_eq!(of(0, [10, 77, 0, 2]), Some([255; 4].into()));
        assert_eq!(of(31, [10, 77, 0, 2]), None);
        assert_eq!(of(32, [10, 77, 0, 2]), None);
    }
}
