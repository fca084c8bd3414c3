//! `parse_udp4` against frames captured from a Linux sender, and against damaged ones.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::ip::Endpoints;
use wire::{ChecksumPolicy, Malformed, UdpDatagram, checksum, parse_udp4};

/// 192.0.2.1:40000 to 192.0.2.2:12345, "market data 42", TOS 0xb8, full checksum.
const FULL: &[u8] = b"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x08\x00\
    \x45\xb8\x00\x2a\xf6\xfd\x40\x00\x40\x11\xbf\x09\xc0\x00\x02\x01\xc0\x00\x02\x02\
    \x9c\x40\x30\x39\x00\x16\x52\xd8market data 42";

/// The same as the sender's kernel hands it to veth: only the pseudo header is summed.
const PARTIAL: &[u8] = b"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x08\x00\
    \x45\xb8\x00\x2a\xf6\xf6\x40\x00\x40\x11\xbf\x10\xc0\x00\x02\x01\xc0\x00\x02\x02\
    \x9c\x40\x30\x39\x00\x16\x84\x2bmarket data 42";

/// "odd" from a socket with SO_NO_CHECK.
const NO_CHECKSUM: &[u8] = b"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x08\x00\
    \x45\x00\x00\x1f\xf7\x1a\x40\x00\x40\x11\xbf\xaf\xc0\x00\x02\x01\xc0\x00\x02\x02\
    \x9c\x40\x30\x39\x00\x0b\x00\x00odd";

const POLICIES: [ChecksumPolicy; 2] = [ChecksumPolicy::Verify, ChecksumPolicy::AcceptPartial];

#[test]
fn full_checksum_is_accepted_under_both_policies() {
    for policy in POLICIES {
        let datagram = parse_udp4(FULL, policy).unwrap();
        assert_eq!(
            datagram,
            UdpDatagram {
                endpoints: Endpoints::V4 {
                    source: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 40_000),
                    destination: SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 12_345),
                },
                payload_offset: 42,
                payload_len: 14,
                tos: 0xb8,
                ttl: 64,
            }
        );
        assert_eq!(payload(FULL, datagram), b"market data 42");
    }
}

#[test]
fn partial_checksum_is_accepted_only_where_asked_for() {
    let datagram = parse_udp4(PARTIAL, ChecksumPolicy::AcceptPartial).unwrap();
    assert_eq!(payload(PARTIAL, datagram), b"market data 42");
    assert_eq!(
        parse_udp4(PARTIAL, ChecksumPolicy::Verify),
        Err(Malformed::UdpChecksum)
    );
}

#[test]
fn absent_checksum_is_accepted() {
    for policy in POLICIES {
        let datagram = parse_udp4(NO_CHECKSUM, policy).unwrap();
        assert_eq!(payload(NO_CHECKSUM, datagram), b"odd");
    }
}

#[test]
fn empty_payload_is_a_datagram() {
    let mut frame = FULL[..42].to_vec();
    frame[39] = 8;
    frame[40..42].fill(0);
    let frame = with_ip_field(&frame, 16, 28_u16.to_be_bytes());
    for policy in POLICIES {
        let datagram = parse_udp4(&frame, policy).unwrap();
        assert_eq!((datagram.payload_offset, datagram.payload_len), (42, 0));
    }
}

#[test]
fn ethernet_padding_is_ignored() {
    let padded = [NO_CHECKSUM, &[0xee; 18]].concat();
    assert_eq!(
        parse_udp4(&padded, ChecksumPolicy::Verify),
        parse_udp4(NO_CHECKSUM, ChecksumPolicy::Verify)
    );
    let padded = [FULL, &[0xee; 5]].concat();
    assert_eq!(
        parse_udp4(&padded, ChecksumPolicy::Verify),
        parse_udp4(FULL, ChecksumPolicy::Verify)
    );
}

#[test]
fn every_truncation_is_rejected() {
    for frame in [FULL, PARTIAL, NO_CHECKSUM] {
        for length in 0..frame.len() {
            for policy in POLICIES {
                assert_eq!(
                    parse_udp4(&frame[..length], policy),
                    Err(Malformed::Truncated),
                    "length {length}"
                );
            }
        }
    }
}

/// Under `Verify`, checksums cover everything behind the Ethernet addresses: no change of one byte
/// goes unnoticed.
#[test]
fn every_corrupt_byte_is_noticed_or_harmless() {
    for (offset, frame) in single_byte_changes(FULL) {
        let accepted = parse_udp4(&frame, ChecksumPolicy::Verify);
        assert_eq!(
            accepted.is_ok(),
            offset < 12,
            "offset {offset}: {accepted:?}"
        );
    }
    for original in [FULL, PARTIAL, NO_CHECKSUM] {
        for (offset, frame) in single_byte_changes(original) {
            if let Ok(datagram) = parse_udp4(&frame, ChecksumPolicy::AcceptPartial) {
                let end = usize::from(datagram.payload_offset) + usize::from(datagram.payload_len);
                assert!(end <= frame.len(), "offset {offset}");
            }
        }
    }
}

#[test]
fn arbitrary_lengths_in_a_valid_ip_header_stay_inside_the_frame() {
    for total_length in 0..=u16::MAX {
        let mut frame = with_ip_field(NO_CHECKSUM, 16, total_length.to_be_bytes());
        frame[38..40].copy_from_slice(&total_length.wrapping_sub(20).to_be_bytes());
        let parsed = parse_udp4(&frame, ChecksumPolicy::Verify);
        match total_length {
            0..28 => assert_eq!(parsed, Err(Malformed::LengthMismatch)),
            28..=31 => assert_eq!(parsed.unwrap().payload_len, total_length - 28),
            32.. => assert_eq!(parsed, Err(Malformed::Truncated)),
        }
    }
}

#[test]
fn each_defect_is_named() {
    let with_byte = |offset: usize, value: u8| {
        let mut frame = FULL.to_vec();
        frame[offset] = value;
        frame
    };
    let cases = [
        ("ARP", with_byte(13, 0x06), Malformed::NotIpv4),
        ("VLAN tag", with_byte(12, 0x81), Malformed::NotIpv4),
        ("IP version 6", with_byte(14, 0x65), Malformed::NotIpv4),
        ("IP options", with_byte(14, 0x46), Malformed::HeaderLength),
        (
            "IP header of 16 bytes",
            with_byte(14, 0x44),
            Malformed::HeaderLength,
        ),
        (
            "TTL changed without checksum",
            with_byte(22, 63),
            Malformed::IpChecksum,
        ),
        (
            "first fragment",
            with_ip_field(FULL, 20, [0x20, 0]),
            Malformed::Fragment,
        ),
        (
            "middle fragment",
            with_ip_field(FULL, 20, [0x20, 1]),
            Malformed::Fragment,
        ),
        (
            "last fragment",
            with_ip_field(FULL, 20, [0x1f, 0xff]),
            Malformed::Fragment,
        ),
        ("TCP", with_ip_field(FULL, 22, [64, 6]), Malformed::NotUdp),
        (
            "IP length without UDP",
            with_ip_field(FULL, 16, [0, 27]),
            Malformed::LengthMismatch,
        ),
        (
            "IP length one short",
            with_ip_field(FULL, 16, [0, 41]),
            Malformed::LengthMismatch,
        ),
        (
            "UDP length one more",
            with_byte(39, 23),
            Malformed::LengthMismatch,
        ),
        (
            "UDP length zero",
            with_byte(39, 0),
            Malformed::LengthMismatch,
        ),
        (
            "payload changed",
            with_byte(45, b'K'),
            Malformed::UdpChecksum,
        ),
        ("port changed", with_byte(37, 0), Malformed::UdpChecksum),
    ];
    for (name, frame, malformed) in cases {
        assert_eq!(
            parse_udp4(&frame, ChecksumPolicy::Verify),
            Err(malformed),
            "{name}"
        );
        assert_eq!(
            parse_udp4(&frame, ChecksumPolicy::AcceptPartial),
            Err(malformed),
            "{name}"
        );
        assert!(!malformed.to_string().is_empty());
    }
}

#[test]
fn flags_that_do_not_make_a_fragment_are_accepted() {
    for flags in [0x00, 0x40, 0x80, 0xc0] {
        let frame = with_ip_field(FULL, 20, [flags, 0]);
        assert!(
            parse_udp4(&frame, ChecksumPolicy::Verify).is_ok(),
            "flags {flags:#x}"
        );
    }
}

fn payload(frame: &[u8], datagram: UdpDatagram) -> &[u8] {
    &frame[usize::from(datagram.payload_offset)..][..usize::from(datagram.payload_len)]
}

/// `frame` with two bytes of its IPv4 header replaced and the header checksum made right again.
fn with_ip_field(frame: &[u8], offset: usize, value: [u8; 2]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[offset..offset + 2].copy_from_slice(&value);
    frame[24..26].fill(0);
    let header_checksum = !checksum::fold(checksum::sum(&frame[14..34], 0));
    frame[24..26].copy_from_slice(&header_checksum.to_be_bytes());
    frame
}

fn single_byte_changes(original: &[u8]) -> impl Iterator<Item = (usize, Vec<u8>)> {
    (0..original.len()).flat_map(move |offset| {
        (1..=255).map(move |flip| {
            let mut frame = original.to_vec();
            frame[offset] ^= flip;
            (offset, frame)
        })
    })
}
