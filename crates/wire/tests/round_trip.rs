//! `UdpTemplate` against a captured frame, and whatever it emits through `parse_udp4`.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use wire::{ChecksumPolicy, EthernetAddresses, UdpDatagram, UdpTemplate, checksum, parse_udp4};

const ETHERNET: EthernetAddresses = EthernetAddresses {
    source: [2, 0, 0, 0, 0, 0xa],
    destination: [2, 0, 0, 0, 0, 0xb],
};

fn template() -> UdpTemplate {
    UdpTemplate::new(
        ETHERNET,
        SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 40_000),
        SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 12_345),
        64,
        0xb8,
        true,
    )
}

#[test]
fn emitted_frame_equals_the_one_linux_sends() {
    // Captured from a UDP socket over veth with transmit checksum offload switched off.
    let captured = b"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x08\x00\
        \x45\xb8\x00\x2a\xf6\xfd\x40\x00\x40\x11\xbf\x09\xc0\x00\x02\x01\xc0\x00\x02\x02\
        \x9c\x40\x30\x39\x00\x16\x52\xd8market data 42";
    let mut frame = [0xa5; 128];
    let length = template()
        .emit_one(&mut frame, 0xf6fd, b"market data 42")
        .unwrap();
    assert_eq!(&frame[..length], captured);
    assert!(frame[length..].iter().all(|byte| *byte == 0xa5));
}

#[test]
fn computed_checksum_of_zero_is_sent_as_all_ones() {
    let mut frame = [0; 128];
    let mut all_ones = 0;
    for value in 0..=u16::MAX {
        let length = template()
            .emit_one(&mut frame, 1, &value.to_be_bytes())
            .unwrap();
        assert_ne!(frame[40..42], [0, 0]);
        all_ones += usize::from(frame[40..42] == [0xff, 0xff]);
        assert!(
            parse_udp4(&frame[..length], ChecksumPolicy::Verify).is_ok(),
            "{value}"
        );
    }
    // Of 65536 payload words exactly one makes the sum 0xffff, for a computed checksum of zero.
    assert_eq!(all_ones, 1);
}

#[test]
fn what_does_not_fit_is_refused_and_the_frame_left_alone() {
    let mut frame = [0xa5; 100];
    assert_eq!(template().emit_one(&mut frame, 1, &[0; 59]), None);
    assert_eq!(template().emit_one(&mut frame[..41], 1, &[]), None);
    assert_eq!(
        template().emit(&mut frame, 1, 59, [[0; 59].as_slice()]),
        None
    );
    assert!(frame.iter().all(|byte| *byte == 0xa5));
    assert_eq!(template().emit_one(&mut frame, 1, &[0; 58]), Some(100));
    assert_eq!(template().emit_one(&mut frame[..42], 1, &[]), Some(42));
}

#[test]
fn longest_ipv4_payload_is_the_limit() {
    let mut frame = vec![0; 70_000];
    let payload = vec![0xff; UdpTemplate::MAX_PAYLOAD_LEN + 1];
    assert_eq!(template().emit_one(&mut frame, 1, &payload), None);
    let longest = &payload[1..];
    let length = template().emit_one(&mut frame, 1, longest).unwrap();
    assert_eq!(length, 65_535 + 14);
    let parsed = parse_udp4(&frame[..length], ChecksumPolicy::Verify).unwrap();
    assert_eq!(
        usize::from(parsed.payload_len),
        UdpTemplate::MAX_PAYLOAD_LEN
    );
}

#[test]
fn parts_that_are_not_as_long_as_announced_are_refused() {
    let mut frame = [0; 128];
    for parts in [["ab", "cd"].as_slice(), &["abcdef"], &[]] {
        assert_eq!(
            template().emit(&mut frame, 1, 5, parts.iter().map(|part| part.as_bytes())),
            None
        );
    }
}

/// An independent check of both checksums: sums of whole headers, with nothing precomputed.
fn assert_checksums_are_right(frame: &[u8], datagram: UdpDatagram) {
    assert_eq!(checksum::fold(checksum::sum(&frame[14..34], 0)), 0xffff);
    let pseudo_header = [
        &datagram.source.ip().octets()[..],
        &datagram.destination.ip().octets(),
        &[0, 17],
        &(datagram.payload_len + 8).to_be_bytes(),
    ]
    .concat();
    let whole = [&pseudo_header, &frame[34..]].concat();
    assert_eq!(checksum::fold(checksum::sum(&whole, 0)), 0xffff);
}

proptest! {
    #[test]
    fn emitted_frames_parse_back(
        source: (u32, u16),
        destination: (u32, u16),
        ttl: u8,
        tos: u8,
        dont_fragment: bool,
        identification: u16,
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
    ) {
        let source = SocketAddrV4::new(source.0.into(), source.1);
        let destination = SocketAddrV4::new(destination.0.into(), destination.1);
        let template = UdpTemplate::new(ETHERNET, source, destination, ttl, tos, dont_fragment);
        let payload = parts.concat();

        let mut frame = vec![0; UdpTemplate::HEADER_LEN + payload.len()];
        let length = template.emit_one(&mut frame, identification, &payload).unwrap();
        prop_assert_eq!(length, frame.len());
        let mut gathered = vec![0; frame.len()];
        let slices = parts.iter().map(Vec::as_slice);
        let gathered_length =
            template.emit(&mut gathered, identification, payload.len(), slices).unwrap();
        prop_assert_eq!(gathered_length, length);
        prop_assert_eq!(&gathered, &frame);

        let parsed = parse_udp4(&frame, ChecksumPolicy::Verify).unwrap();
        let expected = UdpDatagram {
            source,
            destination,
            payload_offset: 42,
            payload_len: u16::try_from(payload.len()).unwrap(),
            tos,
            ttl,
        };
        prop_assert_eq!(parsed, expected);
        prop_assert_eq!(&frame[42..], &payload[..]);
        prop_assert_eq!(&frame[..6], &ETHERNET.destination);
        prop_assert_eq!(&frame[6..12], &ETHERNET.source);
        prop_assert_eq!(&frame[18..20], &identification.to_be_bytes());
        prop_assert_eq!(frame[20], if dont_fragment { 0x40 } else { 0 });
        assert_checksums_are_right(&frame, parsed);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        header in any::<bool>(),
    ) {
        let mut frame = bytes;
        if header && frame.len() > 15 {
            frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        }
        let _ = parse_udp4(&frame, ChecksumPolicy::AcceptPartial);
    }
}
