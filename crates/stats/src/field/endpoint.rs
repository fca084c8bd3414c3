//! A socket address in shared memory.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::field::Field;
use crate::mapping::EntryView;
use crate::schema::FieldKind;

/// An address and a port that change together.
///
/// Two copies exist and `version` says which one is current. The writer fills the other copy and then
/// moves on, so a reader that sees the same version before and after has an untorn pair, and a writer
/// that stops half-way (killed, preempted) never blocks a reader.
///
/// The address is stored as 16 bytes; IPv4 in its mapped form (`::ffff:a.b.c.d`), and a mapped
/// address reads back as IPv4. IPv6 scope and flow label are not kept.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Endpoint {
    version: AtomicU64,
    copies: [[AtomicU64; COPY_WORDS]; 2],
}

const _: () = assert!(size_of::<Endpoint>() == 56 && align_of::<Endpoint>() == 8);

impl Endpoint {
    pub fn set(&self, address: SocketAddr) {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        // Split into halves in memory order, whatever the byte order of the machine.
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = ip.octets();
        let first = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let second = u64::from_ne_bytes([i, j, k, l, m, n, o, p]);
        self.store([first, second, PRESENT | u64::from(address.port())]);
    }

    /// Forgets the address.
    pub fn clear(&self) {
        self.store([0; COPY_WORDS]);
    }

    pub fn value(&self) -> Option<SocketAddr> {
        let [even, odd] = &self.copies;
        let words = || std::iter::once(&self.version).chain(even).chain(odd);
        decode(|index| {
            words()
                .nth(index)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        })
    }

    fn store(&self, words: [u64; COPY_WORDS]) {
        let next = self.version.load(Ordering::Relaxed).wrapping_add(1);
        // Orders the previous version before the stores below: a reader of the copy that is being
        // overwritten then notices that its version has passed.
        fence(Ordering::Release);
        let [even, odd] = &self.copies;
        let copy = if next.is_multiple_of(2) { even } else { odd };
        for (slot, word) in copy.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.version.store(next, Ordering::Release);
    }
}

impl Field for Endpoint {
    type Value = Option<SocketAddr>;
    const KIND: FieldKind = FieldKind::Identity;

    fn reset(&self) {
        self.clear();
    }

    fn read(entry: &EntryView<'_>, offset: usize) -> Option<SocketAddr> {
        decode(|index| entry.load_u64(offset.saturating_add(index * 8)))
    }
}

/// `load` reads the word at an index counted from `version`, relaxed.
fn decode(load: impl Fn(usize) -> u64) -> Option<SocketAddr> {
    for _ in 0..ATTEMPTS {
        let version = load(0);
        fence(Ordering::Acquire);
        let base = if version.is_multiple_of(2) {
            1
        } else {
            1 + COPY_WORDS
        };
        let [first, second, rest] = [load(base), load(base + 1), load(base + 2)];
        fence(Ordering::Acquire);
        if load(0) != version {
            std::hint::spin_loop();
            continue;
        }
        if rest & PRESENT == 0 {
            return None;
        }
        let mut octets = [0; 16];
        let bytes = first.to_ne_bytes().into_iter().chain(second.to_ne_bytes());
        for (to, from) in octets.iter_mut().zip(bytes) {
            *to = from;
        }
        let [low, high, ..] = rest.to_le_bytes();
        let ip = Ipv6Addr::from(octets).to_canonical();
        return Some(SocketAddr::new(ip, u16::from_le_bytes([low, high])));
    }
    None
}

/// Words of one copy: 16 address bytes, then port and presence.
const COPY_WORDS: usize = 3;
/// Set in the third word when there is an address; the port is in the low 16 bits.
const PRESENT: u64 = 1 << 16;
/// No program changes an address this often while it is read; only a hostile one does.
const ATTEMPTS: usize = 1000;

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
        ] {
            let address: SocketAddr = text.parse().unwrap();
            endpoint.set(address);
            assert_eq!(endpoint.value(), Some(address), "{text}");
        }
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
