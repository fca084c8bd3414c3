//! Segments as bytes.

use std::net::Ipv4Addr;

use crate::script::TcpOption;
use crate::stack::{Segment, Unreachable};

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_TCP: u8 = 6;
const IP_HEADER_LEN: usize = 20;
const TCP_HEADER_LEN: usize = 20;

/// Numbers of options (RFC 9293 §3.2, RFC 7323, RFC 2018, RFC 2385, RFC 7413,
/// draft-ietf-tcpm-accurate-ecn).
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMP: u8 = 8;
    pub(super) const MD5: u8 = 19;
    pub(super) const FAST_OPEN: u8 = 34;
    pub(super) const EXPERIMENTAL: u8 = 254;
    /// What Fast Open's option begins with under the experimental number.
    pub(super) const FAST_OPEN_MAGIC: [u8; 2] = [0xf9, 0x89];
    pub(super) const ACCURATE_ECN_0: u8 = 172;
    pub(super) const ACCURATE_ECN_1: u8 = 174;
}

/// The option list of a segment, filled up with zeroes to whole words.
pub fn encode_options(options: &[TcpOption]) -> Vec<u8> {
    let mut list = Vec::new();
    for option in options {
        let (kind, data) = match option {
            TcpOption::End => {
                list.push(kind::END);
                continue;
            }
            TcpOption::Nop => {
                list.push(kind::NOP);
                continue;
            }
            TcpOption::Mss(size) => (kind::MSS, size.to_be_bytes().to_vec()),
            TcpOption::WindowScale(shift) => (kind::WINDOW_SCALE, vec![*shift]),
            TcpOption::SackPermitted => (kind::SACK_PERMITTED, Vec::new()),
            TcpOption::Sack(blocks) => (kind::SACK, words(blocks)),
            TcpOption::Timestamp { val, ecr } => (kind::TIMESTAMP, words(&[(*val, *ecr)])),
            TcpOption::FastOpen(cookie) => (kind::FAST_OPEN, cookie.clone()),
            TcpOption::FastOpenExperimental(cookie) => (
                kind::EXPERIMENTAL,
                [&kind::FAST_OPEN_MAGIC, cookie.as_slice()].concat(),
            ),
            TcpOption::Md5(digest) => (kind::MD5, digest.clone()),
            TcpOption::AccurateEcn(counters) => {
                let first = counters.first().is_some_and(|(name, _)| name == "e1b");
                let data = counters
                    .iter()
                    .flat_map(|(_, value)| value.to_be_bytes()[1..].to_vec());
                (
                    if first {
                        kind::ACCURATE_ECN_1
                    } else {
                        kind::ACCURATE_ECN_0
                    },
                    data.collect(),
                )
            }
        };
        let len = u8::try_from(data.len() + 2).expect("an option is short");
        list.extend([kind, len]);
        list.extend(data);
    }
    list.resize(list.len().next_multiple_of(4), kind::END);
    list
}

fn words(pairs: &[(u32, u32)]) -> Vec<u8> {
    let bytes = pairs
        .iter()
        .flat_map(|(a, b)| [a.to_be_bytes(), b.to_be_bytes()].concat());
    bytes.collect()
}

/// The options of a list, in order. The error says what is malformed.
pub fn decode_options(mut list: &[u8]) -> Result<Vec<TcpOption>, String> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = list {
        let simple = match *kind {
            kind::END => Some(TcpOption::End),
            kind::NOP => Some(TcpOption::Nop),
            _ => None,
        };
        if let Some(option) = simple {
            options.push(option);
            list = rest;
            continue;
        }
        let (len, rest) = rest.split_first().ok_or("an option without length")?;
        let data_len = usize::from(*len).checked_sub(2);
        let (data, rest) = data_len
            .and_then(|len| rest.split_at_checked(len))
            .ok_or_else(|| format!("option {kind} of length {len}"))?;
        options.push(decode(*kind, data).ok_or_else(|| format!("option {kind} with {data:x?}"))?);
        list = rest;
    }
    Ok(options)
}

fn decode(kind: u8, data: &[u8]) -> Option<TcpOption> {
    let pairs = || {
        let (pairs, rest) = data.as_chunks::<8>();
        let pair = |&[a, b, c, d, e, f, g, h]: &[u8; 8]| {
            (
                u32::from_be_bytes([a, b, c, d]),
                u32::from_be_bytes([e, f, g, h]),
            )
        };
        rest.is_empty()
            .then(|| pairs.iter().map(pair).collect::<Vec<_>>())
    };
    Some(match kind {
        kind::MSS => TcpOption::Mss(u16::from_be_bytes(data.try_into().ok()?)),
        kind::WINDOW_SCALE => match data {
            [shift] => TcpOption::WindowScale(*shift),
            _ => return None,
        },
        kind::SACK_PERMITTED => data.is_empty().then_some(TcpOption::SackPermitted)?,
        kind::SACK => TcpOption::Sack(pairs()?),
        kind::TIMESTAMP => match pairs()?.as_slice() {
            &[(val, ecr)] => TcpOption::Timestamp { val, ecr },
            _ => return None,
        },
        kind::FAST_OPEN => TcpOption::FastOpen(data.to_vec()),
        kind::EXPERIMENTAL => {
            TcpOption::FastOpenExperimental(data.strip_prefix(&kind::FAST_OPEN_MAGIC)?.to_vec())
        }
        kind::MD5 => TcpOption::Md5(data.to_vec()),
        kind::ACCURATE_ECN_0 | kind::ACCURATE_ECN_1 => {
            let names = if kind == kind::ACCURATE_ECN_0 {
                ["e0b", "ceb", "e1b"]
            } else {
                ["e1b", "ceb", "e0b"]
            };
            let (values, rest) = data.as_chunks::<3>();
            let value = |&[a, b, c]: &[u8; 3]| u32::from_be_bytes([0, a, b, c]);
            let counters = names
                .into_iter()
                .map(str::to_owned)
                .zip(values.iter().map(value));
            rest.is_empty()
                .then(|| TcpOption::AccurateEcn(counters.collect()))?
        }
        _ => return None,
    })
}

/// The IPv4 packet of a segment.
pub fn encode_tcp(segment: &Segment, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let options = encode_options(&segment.options);
    let words = u8::try_from((TCP_HEADER_LEN + options.len()) / 4).expect("a header is short");
    let mut tcp = Vec::new();
    tcp.extend(segment.source.to_be_bytes());
    tcp.extend(segment.destination.to_be_bytes());
    tcp.extend(segment.seq.to_be_bytes());
    tcp.extend(segment.ack.to_be_bytes());
    tcp.extend([words << 4 | u8::from(segment.ae), segment.flags]);
    tcp.extend(segment.window.to_be_bytes());
    tcp.extend([0, 0]);
    tcp.extend(segment.urgent.to_be_bytes());
    tcp.extend(options);
    tcp.extend(&segment.payload);
    let len = u16::try_from(tcp.len()).expect("a segment fits a packet");
    let pseudo = [
        &source.octets()[..],
        &destination.octets(),
        &[0, PROTOCOL_TCP],
        &len.to_be_bytes(),
    ]
    .concat();
    let sum = checksum(&[&pseudo, &tcp]);
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut packet = ip_header(segment.tos, PROTOCOL_TCP, len, source, destination);
    packet.extend(tcp);
    packet
}

/// The IPv4 packet of an ICMP message to `destination`, which sent the segment that it is about to
/// `source`.
pub fn encode_unreachable(
    message: &Unreachable,
    source: Ipv4Addr,
    destination: Ipv4Addr,
) -> Vec<u8> {
    let mut icmp = vec![3, message.code, 0, 0, 0, 0];
    icmp.extend(message.mtu.to_be_bytes());
    icmp.extend(ip_header(0, PROTOCOL_TCP, 1000, destination, source));
    icmp.extend(message.source.to_be_bytes());
    icmp.extend(message.destination.to_be_bytes());
    icmp.extend(message.seq.to_be_bytes());
    let sum = checksum(&[&icmp]);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    let len = u16::try_from(icmp.len()).expect("an ICMP message is short");
    let mut packet = ip_header(0, PROTOCOL_ICMP, len, source, destination);
    packet.extend(icmp);
    packet
}

/// The segment in an IPv4 packet; `None` if it carries something else or is malformed.
pub fn decode_tcp(packet: &[u8]) -> Option<Segment> {
    let header = packet.first_chunk::<IP_HEADER_LEN>()?;
    if header[0] != 0x45 || header[9] != PROTOCOL_TCP {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let tcp = packet.get(IP_HEADER_LEN..total)?;
    let fixed = tcp.first_chunk::<TCP_HEADER_LEN>()?;
    let offset = usize::from(fixed[12] >> 4) * 4;
    let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let long =
        |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    Some(Segment {
        source: word(0),
        destination: word(2),
        seq: long(4),
        ack: long(8),
        flags: fixed[13],
        ae: fixed[12] & 1 != 0,
        window: word(14),
        urgent: word(18),
        options: decode_options(tcp.get(TCP_HEADER_LEN..offset)?).ok()?,
        payload: tcp.get(offset..)?.to_vec(),
        tos: header[1],
    })
}

fn ip_header(tos: u8, protocol: u8, len: u16, source: Ipv4Addr, destination: Ipv4Addr) -> Vec<u8> {
    let total = len + 20;
    let mut header = vec![0x45, tos];
    header.extend(total.to_be_bytes());
    header.extend([0, 0, 0, 0, 255, protocol, 0, 0]);
    header.extend(source.octets());
    header.extend(destination.octets());
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The Internet checksum (RFC 1071) of parts of even length, but for the last.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u32;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([
                pair[0],
                pair.get(1).copied().unwrap_or(0),
            ]));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).expect("folded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_survive_the_wire() {
        let segment = Segment {
            source: 1,
            destination: 2,
            seq: 3,
            ack: 4,
            flags: 0x12,
            ae: true,
            window: 5,
            urgent: 6,
            options: vec![
                TcpOption::Mss(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamp { val: 7, ecr: 8 },
                TcpOption::Nop,
                TcpOption::WindowScale(9),
            ],
            payload: vec![1, 2, 3],
            tos: 2,
        };
        let address = Ipv4Addr::LOCALHOST;
        let packet = encode_tcp(&segment, address, address);
        assert_eq!(decode_tcp(&packet), Some(segment));
        // The header's sum, its checksum included, is all ones.
        assert_eq!(checksum(&[&packet[..20]]), 0);
    }

    #[test]
    fn malformed_options_are_errors() {
        for list in [&[2, 4, 5][..], &[2], &[8, 1], &[3, 4, 1, 1], &[99, 2]] {
            assert!(decode_options(list).is_err(), "{list:?}");
        }
        let sack = TcpOption::Sack(vec![(1, 2), (3, 4)]);
        assert_eq!(
            decode_options(&encode_options(std::slice::from_ref(&sack))).unwrap()[0],
            sack
        );
    }
}
