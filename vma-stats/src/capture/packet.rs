//! What a captured packet is, as far as a filter asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use stats::{PROTOCOL_TCP, PROTOCOL_UDP};

/// The beginnings of its headers. A packet that was cut before its ports has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Headers {
    /// Of IP.
    pub(super) protocol: u32,
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
}

const ETHERTYPE_V4: u16 = 0x0800;
const ETHERTYPE_V6: u16 = 0x86dd;
const ETHERTYPES_VLAN: [u16; 2] = [0x8100, 0x88a8];
const MACS_BYTES: usize = 12;

impl Headers {
    /// `None`: it is no TCP or UDP over IP.
    pub(super) fn of(frame: &[u8]) -> Option<Self> {
        let mut at = MACS_BYTES;
        while ETHERTYPES_VLAN.contains(&number(frame, at)?) {
            at += 4;
        }
        let packet = frame.get(at + 2..)?;
        let (protocol, addresses, ports_at) = match number(frame, at)? {
            ETHERTYPE_V4 => {
                let address = |at| Some(IpAddr::V4(Ipv4Addr::from(octets::<4>(packet, at)?)));
                let header_len = usize::from(packet.first()? & 0xf) * 4;
                let addresses = (address(12)?, address(16)?);
                (*packet.get(9)?, addresses, header_len)
            }
            ETHERTYPE_V6 => {
                let address = |at| Some(IpAddr::V6(Ipv6Addr::from(octets::<16>(packet, at)?)));
                // What passes by the kernel has no extension headers.
                (*packet.get(6)?, (address(8)?, address(24)?), 40)
            }
            _ => return None,
        };
        let protocol = u32::from(protocol);
        [PROTOCOL_TCP, PROTOCOL_UDP]
            .contains(&protocol)
            .then_some(())?;
        Some(Self {
            protocol,
            source: SocketAddr::new(addresses.0, number(packet, ports_at)?),
            destination: SocketAddr::new(addresses.1, number(packet, ports_at + 2)?),
        })
    }
}

fn octets<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    octets(bytes, at).map(u16::from_be_bytes)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A frame with these ends, and nothing else that is right.
    pub(in crate::capture) fn frame(protocol: u32, source: &str, destination: &str) -> Vec<u8> {
        let protocol = u8::try_from(protocol).unwrap();
        let (source, destination): (SocketAddr, SocketAddr) =
            (source.parse().unwrap(), destination.parse().unwrap());
        let mut frame = vec![0; MACS_BYTES];
        let mut ip = match (source.ip(), destination.ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                frame.extend(ETHERTYPE_V4.to_be_bytes());
                let mut ip = vec![0x46, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0];
                ip[9] = protocol;
                ip.extend(source.octets());
                ip.extend(destination.octets());
                ip.extend([1; 4]);
                ip
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                frame.extend(ETHERTYPE_V6.to_be_bytes());
                let mut ip = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
                ip.extend(source.octets());
                ip.extend(destination.octets());
                ip
            }
            _ => panic!("two versions"),
        };
        ip.extend(source.port().to_be_bytes());
        ip.extend(destination.port().to_be_bytes());
        frame.extend(ip);
        frame
    }

    #[test]
    fn headers_are_found_behind_options_and_tags() {
        let plain = frame(PROTOCOL_TCP, "10.0.0.1:80", "10.0.0.2:4000");
        let headers = Headers::of(&plain).unwrap();
        assert_eq!(headers.source, "10.0.0.1:80".parse().unwrap());
        assert_eq!(headers.destination, "10.0.0.2:4000".parse().unwrap());
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(Headers::of(&tagged), Some(headers));
        for len in 0..plain.len() {
            assert_eq!(Headers::of(&plain[..len]), None, "{len}");
        }
        let v6 = frame(PROTOCOL_UDP, "[fe80::1]:53", "[fe80::2]:9");
        assert_eq!(
            Headers::of(&v6).unwrap().source,
            "[fe80::1]:53".parse().unwrap()
        );
        assert_eq!(Headers::of(&frame(1, "10.0.0.1:1", "10.0.0.2:2")), None);
    }
}
