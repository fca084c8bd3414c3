//! Source addresses of IPv4 that the kernel refuses on an interface: `fib_validate_source` in
//! `net/ipv4/fib_frontend.c`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A set that most addresses are told not to be in by one bit.
#[derive(Debug, Default)]
pub(crate) struct RefusedSources {
    /// The bit of the last byte of each address.
    last_bytes: [u64; 4],
    addresses: Vec<Ipv4Addr>,
}

impl RefusedSources {
    pub(crate) fn new(mut addresses: Vec<Ipv4Addr>) -> Self {
        addresses.sort_unstable();
        addresses.dedup();
        let mut last_bytes = [0; 4];
        for address in &addresses {
            let (word, bit) = place(*address);
            last_bytes[word] |= bit;
        }
        Self {
            last_bytes,
            addresses,
        }
    }

    #[inline]
    pub(crate) fn contains_source(&self, source: SocketAddr) -> bool {
        match source {
            SocketAddr::V4(source) => self.contains(*source.ip()),
            SocketAddr::V6(_) => is_refused_v6(source.ip()),
        }
    }

    #[inline]
    pub(crate) fn contains(&self, address: Ipv4Addr) -> bool {
        let (word, bit) = place(address);
        self.last_bytes[word] & bit != 0 && self.is_listed(address)
    }

    #[cold]
    fn is_listed(&self, address: Ipv4Addr) -> bool {
        self.addresses.binary_search(&address).is_ok()
    }
}

/// What no packet of IPv6 may come from (`ip6_rcv_core`, net/ipv6/ip6_input.c).
pub(super) fn is_refused_v6(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => false,
        IpAddr::V6(ip) => ip.is_multicast() || ip.is_loopback() || ip.to_ipv4_mapped().is_some(),
    }
}

#[inline]
fn place(address: Ipv4Addr) -> (usize, u64) {
    let [.., last] = address.octets();
    (usize::from(last >> 6), 1 << (last & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_set_if_it_was_put_there() {
        let sources: Vec<Ipv4Addr> = ["10.0.0.1", "10.0.0.255", "192.0.2.64", "10.0.0.1"]
            .map(|text| text.parse().unwrap())
            .into();
        let set = RefusedSources::new(sources.clone());
        assert!(sources.iter().all(|source| set.contains(*source)));
        let others = (0..=255).flat_map(|last| {
            ["10.0.0", "10.0.1", "192.0.2"].map(|first| format!("{first}.{last}").parse().unwrap())
        });
        for other in others.filter(|other| !sources.contains(other)) {
            assert!(!set.contains(other), "{other}");
        }
        assert!(!RefusedSources::default().contains(Ipv4Addr::UNSPECIFIED));
        for (text, expected) in [
            ("10.0.0.1:1", true),
            ("10.0.0.2:1", false),
            ("[2001:db8::1]:1", false),
            ("[ff02::1]:1", true),
            ("[::1]:1", true),
            ("[::ffff:10.0.0.2]:1", true),
        ] {
            assert_eq!(
                set.contains_source(text.parse().unwrap()),
                expected,
                "{text}"
            );
        }
    }
}
