//! `UdpTemplate` against a captured frame, and whatever it emits through `parse_udp4`.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};

use proptest::prelude::*;
use wire::{
    ChecksumPolicy, EthernetAddresses, Malformed, UdpDatagram, UdpTemplate, checksum, ip,
    parse_udp, parse_udp4, tcp,
};

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
    let payload = vec![0xff; template().max_payload_len() + 1];
    assert_eq!(template().emit_one(&mut frame, 1, &payload), None);
    let longest = &payload[1..];
    let length = template().emit_one(&mut frame, 1, longest).unwrap();
    assert_eq!(length, 65_535 + 14);
    let parsed = parse_udp4(&frame[..length], ChecksumPolicy::Verify).unwrap();
    assert_eq!(
        usize::from(parsed.payload_len),
        template().max_payload_len()
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

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

/// An independent check of both checksums: sums of whole headers, with nothing precomputed.
fn assert_checksums_are_right(frame: &[u8], datagram: UdpDatagram) {
    if datagram.endpoints.source().is_ipv4() {
        assert_eq!(checksum::fold(checksum::sum(&frame[14..34], 0)), 0xffff);
    }
    let pseudo_header = [
        octets(datagram.endpoints.source().ip()),
        octets(datagram.endpoints.destination().ip()),
        vec![0, 17],
        (datagram.payload_len + 8).to_be_bytes().to_vec(),
    ]
    .concat();
    let whole = [
        &pseudo_header,
        &frame[usize::from(datagram.payload_offset) - 8..],
    ]
    .concat();
    assert_eq!(checksum::fold(checksum::sum(&whole, 0)), 0xffff);
}

fn parse(frame: &[u8], policy: ChecksumPolicy) -> Result<UdpDatagram, Malformed> {
    parse_udp(&ip::parse(frame)?, policy)
}

/// Source and destination, of one family.
fn ends() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    let v4 = any::<[([u8; 4], u16); 2]>().prop_map(|ends| ends.map(SocketAddr::from));
    let v6 = any::<[([u8; 16], u16); 2]>().prop_map(|ends| ends.map(SocketAddr::from));
    prop_oneof![v4, v6].prop_map(|[source, destination]| (source, destination))
}

proptest! {
    #[test]
    fn emitted_frames_parse_back(
        ends in ends(),
        ttl: u8,
        tos: u8,
        dont_fragment: bool,
        identification: u16,
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
    ) {
        let (source, destination) = ends;
        let template = UdpTemplate::new(ETHERNET, source, destination, ttl, tos, dont_fragment);
        let payload = parts.concat();

        let mut frame = vec![0; template.header_len() + payload.len()];
        let length = template.emit_one(&mut frame, identification, &payload).unwrap();
        prop_assert_eq!(length, frame.len());
        let mut gathered = vec![0; frame.len()];
        let slices = parts.iter().map(Vec::as_slice);
        let gathered_length =
            template.emit(&mut gathered, identification, payload.len(), slices).unwrap();
        prop_assert_eq!(gathered_length, length);
        prop_assert_eq!(&gathered, &frame);

        let parsed = parse(&frame, ChecksumPolicy::Verify).unwrap();
        let offset = template.header_len();
        prop_assert_eq!(parsed.endpoints.source(), source);
        prop_assert_eq!(parsed.endpoints.destination(), destination);
        let expected = UdpDatagram {
            endpoints: parsed.endpoints,
            payload_offset: u16::try_from(offset).unwrap(),
            payload_len: u16::try_from(payload.len()).unwrap(),
            tos,
            ttl,
        };
        prop_assert_eq!(parsed, expected);
        prop_assert_eq!(&frame[offset..], &payload[..]);
        prop_assert_eq!(&frame[..6], &ETHERNET.destination);
        prop_assert_eq!(&frame[6..12], &ETHERNET.source);
        if source.is_ipv4() {
            prop_assert_eq!(&frame[18..20], &identification.to_be_bytes());
            prop_assert_eq!(frame[20], if dont_fragment { 0x40 } else { 0 });
        }
        assert_checksums_are_right(&frame, parsed);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        header in proptest::sample::select(&[None, Some([0x08, 0x00, 0x45]), Some([0x86, 0xdd, 0x60])]),
        protocol in proptest::sample::select(&[6, 17]),
    ) {
        let mut frame = bytes;
        if let Some(header) = header && frame.len() > 23 {
            frame[12..15].copy_from_slice(&header);
            frame[if header[0] == 8 { 23 } else { 20 }] = protocol;
        }
        if let Ok(packet) = ip::parse(&frame) {
            let _ = parse_udp(&packet, ChecksumPolicy::AcceptPartial);
            let _ = tcp::parse_tcp(&packet, ChecksumPolicy::AcceptPartial);
        }
    }
}
