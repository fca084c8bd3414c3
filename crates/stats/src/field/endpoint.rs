//! A socket address in shared memory.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use crate::field::value::Value;
use crate::field::versioned::{self, COPY_WORDS, Versioned};
use crate::field::{Field, FieldKind};
use crate::mapping::EntryView;

/// An address and a port that change together.
///
/// The address is stored as 16 bytes; IPv4 in its mapped form (`::ffff:a.b.c.d`), and a mapped
/// address reads back as IPv4. IPv6 flow labels are not kept, and scopes of link-local unicast
/// addresses only, which say nothing without: older readers find the address alone.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Endpoint {
    /// 16 address bytes, then port, presence and scope.
    words: Versioned,
}

const _: () = assert!(size_of::<Endpoint>() == 56 && align_of::<Endpoint>() == 8);

impl Endpoint {
    pub fn set(&self, address: SocketAddr) {
        let (ip, scope) = match address {
            SocketAddr::V4(four) => (four.ip().to_ipv6_mapped(), 0),
            SocketAddr::V6(six) if six.ip().is_unicast_link_local() => (*six.ip(), six.scope_id()),
            SocketAddr::V6(six) => (*six.ip(), 0),
        };
        let rest = u64::from(scope) << SCOPE_SHIFT | PRESENT | u64::from(address.port());
        // Split into halves in memory order, whatever the byte order of the machine.
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = ip.octets();
        let first = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let second = u64::from_ne_bytes([i, j, k, l, m, n, o, p]);
        self.words.store([first, second, rest]);
    }

    /// Forgets the address.
    pub fn clear(&self) {
        self.words.store([0; COPY_WORDS]);
    }

    pub fn value(&self) -> Option<SocketAddr> {
        self.words.load().and_then(address)
    }
}

impl Field for Endpoint {
    type Value = Option<SocketAddr>;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        // A new socket need not touch what is empty.
        if self.value().is_some() {
            self.clear();
        }
    }

    fn copy_from(&self, other: &Self) {
        match other.value() {
            Some(address) => self.set(address),
            None => self.clear(),
        }
    }

    fn shown(value: &Option<SocketAddr>) -> Value {
        Value::Address(*value)
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> Option<SocketAddr> {
        let words = versioned::read(|index| entry.load_u64(offset.saturating_add(index * 8)));
        words.and_then(address)
    }
}

fn address([first, second, rest]: [u64; COPY_WORDS]) -> Option<SocketAddr> {
    if rest & PRESENT == 0 {
        return None;
    }
    let mut octets = [0; 16];
    let bytes = first.to_ne_bytes().into_iter().chain(second.to_ne_bytes());
    for (to, from) in octets.iter_mut().zip(bytes) {
        *to = from;
    }
    let [low, high, ..] = rest.to_le_bytes();
    let port = u16::from_le_bytes([low, high]);
    Some(match Ipv6Addr::from(octets).to_canonical() {
        IpAddr::V4(ip) => SocketAddr::from((ip, port)),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, (rest >> SCOPE_SHIFT) as u32).into(),
    })
}

/// Set in the third word when there is an address; the port is in the low 16 bits.
const PRESENT: u64 = 1 << 16;
/// The scope is in the upper half.
const SCOPE_SHIFT: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_reads_back() {
        let endpoint = Endpoint::default();
        assert_eq!(endpoint.value(), None);
        for text in [
            "10.1.2.3:4097",
            "0.0.0.0:0",
            "[2001:db8::7]:65535",
            "[::]:1",
            "[fe80::1%4294967295]:65535",
            "[fe80::1]:1",
        ] {
            let address: SocketAddr = text.parse().unwrap();
            endpoint.set(address);
            assert_eq!(endpoint.value(), Some(address), "{text}");
        }
        endpoint.set("[2001:db8::7%3]:1".parse().unwrap());
        assert_eq!(endpoint.value(), Some("[2001:db8::7]:1".parse().unwrap()));
        endpoint.clear();
        assert_eq!(endpoint.value(), None);
    }

    #[test]
    fn endpoint_mapped_ipv4_reads_back_as_ipv4() {
        let endpoint = Endpoint::default();
        endpoint.set("[::ffff:10.0.0.1]:80".parse().unwrap());
        assert_eq!(endpoint.value(), Some("10.0.0.1:80".parse().unwrap()));
    }

    #[test]
    fn endpoint_is_never_torn() {
        let endpoint = Endpoint::default();
        let pair = |n: u16| {
            let [high, low] = n.to_be_bytes();
            SocketAddr::from(([high, low, high, low], n))
        };
        endpoint.set(pair(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                (0..=u16::MAX)
                    .cycle()
                    .take(200_000)
                    .for_each(|n| endpoint.set(pair(n)))
            });
            while !writer.is_finished() {
                if let Some(address) = endpoint.value() {
                    assert_eq!(address, pair(address.port()));
                }
            }
        });
    }
}
