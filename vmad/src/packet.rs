//! Segments as IP packets, for raw sockets.

use wire::ip;
use wire::tcp::{self, Flags, Header, Template};
use wire::{ChecksumPolicy, EthernetAddresses, ethernet};

use crate::connection::Connection;
use crate::resets::{Answer, Segment};

/// The wire crate knows frames; raw sockets take and give packets.
const FRAME_HEADER: usize = ethernet::HEADER_LEN as usize;

/// Room for a packet that is sent: no segment has options or data.
pub const MAX_SENT: usize = Template::MAX_HEADERS_LEN - FRAME_HEADER;

const TTL: u8 = 64;

/// What VMA's daemon puts into its SYN. Whatever it is, the peer answers with its own number.
const PROBE_SEQUENCE: u32 = 1;

/// Writes the packet to the start of `packet` and returns its length.
pub fn write(packet: &mut [u8; MAX_SENT], connection: &Connection, segment: Segment) -> usize {
    let header = match segment {
        Segment::Probe => Header {
            seq: PROBE_SEQUENCE,
            flags: Flags::SYN,
            ..Header::default()
        },
        Segment::Reset(seq) => Header {
            seq,
            flags: Flags::RST,
            ..Header::default()
        },
    };
    let nowhere = EthernetAddresses {
        source: [0; 6],
        destination: [0; 6],
    };
    let template = Template::new(nowhere, connection.local, connection.peer, TTL, 0, true);
    let mut frame = [0; Template::MAX_HEADERS_LEN];
    // It always fits: the frame has room for all headers, and there is nothing else.
    let length = template
        .emit(&mut frame, 0, 0, &header, [])
        .unwrap_or_default();
    let sent = frame.get(FRAME_HEADER..length).unwrap_or_default();
    if let Some(room) = packet.get_mut(..sent.len()) {
        room.copy_from_slice(sent);
    }
    sent.len()
}

/// What an IP packet of either version that came in says about a connection of this host: `None` if
/// it is no answer.
///
/// `buffer` is the packet with room for a frame header before it.
pub fn read(buffer: &mut [u8]) -> Option<(Connection, Answer)> {
    let ether_type = match buffer.get(FRAME_HEADER)? >> 4 {
        4 => ethernet::TYPE_IPV4,
        _ => ethernet::TYPE_IPV6,
    };
    let header = buffer.get_mut(..FRAME_HEADER)?;
    header.fill(0);
    header
        .get_mut(12..)?
        .copy_from_slice(&ether_type.to_be_bytes());
    let packet = ip::parse(buffer).ok()?;
    if packet.protocol != ip::PROTOCOL_TCP {
        return None;
    }
    // A packet that comes from this very host has no checksum yet.
    let segment = tcp::parse_tcp(&packet, ChecksumPolicy::AcceptPartial).ok()?;
    let connection = Connection {
        local: segment.endpoints.destination(),
        peer: segment.endpoints.source(),
    };
    let flags = segment.header.flags;
    let answer = if flags.contains(Flags::RST) {
        Answer::Resets
    } else if flags.contains(Flags::ACK) && !flags.contains(Flags::SYN) {
        Answer::Acknowledges(segment.header.ack)
    } else {
        return None;
    };
    Some((connection, answer))
}

/// Where in the buffer of [`read`] a packet goes.
pub const PACKET_OFFSET: usize = FRAME_HEADER;

#[cfg(test)]
mod tests {
    use super::*;

    /// Of each version.
    fn connections() -> [Connection; 2] {
        let connection = |local: &str, peer: &str| Connection {
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
        };
        [
            connection("10.0.0.1:8080", "10.0.0.2:40000"),
            connection("[2001:db8::1]:8080", "[2001:db8::2]:40000"),
        ]
    }

    /// What the peer makes of a packet that we send.
    fn received(connection: &Connection, segment: Segment) -> tcp::Segment {
        let mut packet = [0; MAX_SENT];
        let length = write(&mut packet, connection, segment);
        let (expected, ether_type) = match connection.local.is_ipv4() {
            true => (40, ethernet::TYPE_IPV4),
            false => (60, ethernet::TYPE_IPV6),
        };
        assert_eq!(length, expected);
        let mut frame = vec![0; FRAME_HEADER];
        frame[12..14].copy_from_slice(&ether_type.to_be_bytes());
        frame.extend(&packet[..length]);
        let packet = ip::parse(&frame).unwrap();
        tcp::parse_tcp(&packet, ChecksumPolicy::Verify).unwrap()
    }

    #[test]
    fn a_probe_is_a_syn_without_a_window() {
        for connection in connections() {
            let segment = received(&connection, Segment::Probe);
            assert_eq!(segment.endpoints.source(), connection.local);
            assert_eq!(segment.endpoints.destination(), connection.peer);
            assert_eq!(segment.header.flags, Flags::SYN);
            assert_eq!((segment.header.seq, segment.header.window), (1, 0));
        }
    }

    #[test]
    fn a_reset_has_the_number_and_no_acknowledgement() {
        for connection in connections() {
            let segment = received(&connection, Segment::Reset(0xfedc_ba98));
            assert_eq!(segment.header.flags, Flags::RST);
            assert_eq!(segment.header.seq, 0xfedc_ba98);
        }
    }

    /// A packet of the peer with these flags.
    fn answer(connection: &Connection, flags: Flags) -> Option<(Connection, Answer)> {
        let nowhere = EthernetAddresses {
            source: [0; 6],
            destination: [0; 6],
        };
        let Connection { local, peer } = *connection;
        let template = Template::new(nowhere, peer, local, 64, 0, true);
        let mut frame = [0; Template::MAX_HEADERS_LEN];
        let header = Header {
            ack: 4711,
            flags,
            ..Header::default()
        };
        let length = template.emit(&mut frame, 0, 0, &header, []).unwrap();
        frame[..FRAME_HEADER].fill(0xaa);
        read(&mut frame[..length])
    }

    #[test]
    fn acknowledgements_and_resets_are_answers() {
        for connection in connections() {
            let seen = |flags| {
                let seen = answer(&connection, flags);
                seen.map(|(of, answer)| (of == connection, answer))
            };
            let acknowledged = Answer::Acknowledges(4711);
            assert_eq!(seen(Flags::ACK), Some((true, acknowledged)));
            assert_eq!(seen(Flags::ACK | Flags::RST), Some((true, Answer::Resets)));
            assert_eq!(seen(Flags::RST), Some((true, Answer::Resets)));
            // Of a new connection with the same addresses.
            assert_eq!(seen(Flags::SYN | Flags::ACK), None);
            assert_eq!(seen(Flags::SYN), None);
        }
    }

    #[test]
    fn every_truncation_is_no_answer() {
        let mut frame = [0; FRAME_HEADER + 40];
        for length in 0..frame.len() {
            assert_eq!(read(&mut frame[..length]), None, "{length}");
        }
    }
}
