//! UDP and TCP in IPv6 (RFC 8200): against frames that a Linux kernel sent, and against damaged
//! ones.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv6Addr, SocketAddr};

use wire::ip::{Addresses, Endpoints};
use wire::tcp::{self, Flags, Header, Options, Segment, Template};
use wire::{
    ChecksumPolicy, EthernetAddresses, Malformed, UdpDatagram, UdpTemplate, checksum, ip, parse_udp,
};

const ETHERNET: EthernetAddresses = EthernetAddresses {
    source: [2, 0, 0, 0, 0, 0xa],
    destination: [2, 0, 0, 0, 0, 0xb],
};
const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);

/// From 2001:db8::1, port 40000, to 2001:db8::2, port 12345: "market data 42", traffic class 0xb8.
/// Captured from a socket of Linux over veth with transmit checksum offload switched off, and
/// net.ipv6.auto_flowlabels 0.
const FULL: &[u8] = b"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x86\xdd\
    \x6b\x80\x00\x00\x00\x16\x11\x40\
    \x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\
    \x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\
    \x9c\x40\x30\x39\x00\x16\x7b\x67market data 42";

/// The checksum of the same where the device is expected to complete it.
const PARTIAL_CHECKSUM: [u8; 2] = [0x5b, 0x9c];

/// "hello" in a segment from port 40002 to port 80, captured likewise.
const SEGMENT: &[u8] = b"\x02\x00\x00\x00\x00\x0b\x02\x00\x00\x00\x00\x0a\x86\xdd\
    \x60\x00\x00\x00\x00\x19\x06\x40\
    \x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\
    \x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\
    \x9c\x42\x00\x50\xc7\x3d\x26\xfc\x39\x5e\x9c\xc4\x50\x18\x00\x40\xaf\x51\x00\x00hello";

/// The headers' lengths of such frames, in bytes.
const IP_HEADERS: usize = 54;

const POLICIES: [ChecksumPolicy; 2] = [ChecksumPolicy::Verify, ChecksumPolicy::AcceptPartial];

fn udp(frame: &[u8], policy: ChecksumPolicy) -> Result<UdpDatagram, Malformed> {
    let packet = ip::parse(frame)?;
    assert_eq!(packet.protocol, ip::PROTOCOL_UDP);
    parse_udp(&packet, policy)
}

fn segment(frame: &[u8], policy: ChecksumPolicy) -> Result<Segment, Malformed> {
    let packet = ip::parse(frame)?;
    assert_eq!(packet.protocol, ip::PROTOCOL_TCP);
    tcp::parse_tcp(&packet, policy)
}

fn ends(source_port: u16, destination_port: u16) -> (SocketAddr, SocketAddr) {
    (
        SocketAddr::from((SOURCE, source_port)),
        SocketAddr::from((DESTINATION, destination_port)),
    )
}

fn udp_template() -> UdpTemplate {
    let (source, destination) = ends(40_000, 12_345);
    UdpTemplate::new(ETHERNET, source, destination, 64, 0xb8, false)
}

fn tcp_template() -> Template {
    let (source, destination) = ends(40_002, 80);
    Template::new(ETHERNET, source, destination, 64, 0, true)
}

/// That of [`SEGMENT`].
fn header() -> Header {
    Header {
        seq: 0xc73d_26fc,
        ack: 0x395e_9cc4,
        flags: Flags::ACK | Flags::PSH,
        window: 64,
        urgent: 0,
        options: Options::default(),
    }
}

#[test]
fn a_datagram_of_linux_is_read_as_it_was_sent() {
    let endpoints = Endpoints::V6 {
        source: (SOURCE, 40_000),
        destination: (DESTINATION, 12_345),
    };
    let mut partial = FULL.to_vec();
    partial[60..62].copy_from_slice(&PARTIAL_CHECKSUM);
    for (frame, policy, is_accepted) in [
        (FULL, ChecksumPolicy::Verify, true),
        (FULL, ChecksumPolicy::AcceptPartial, true),
        (&partial, ChecksumPolicy::AcceptPartial, true),
        (&partial, ChecksumPolicy::Verify, false),
        (&partial, ChecksumPolicy::Checked, true),
    ] {
        let expected = UdpDatagram {
            endpoints,
            payload_offset: 62,
            payload_len: 14,
            tos: 0xb8,
            ttl: 64,
        };
        let expected = is_accepted
            .then_some(expected)
            .ok_or(Malformed::UdpChecksum);
        assert_eq!(udp(frame, policy), expected, "{policy:?}");
    }
}

#[test]
fn a_segment_of_linux_is_read_as_it_was_sent() {
    let endpoints = Endpoints::V6 {
        source: (SOURCE, 40_002),
        destination: (DESTINATION, 80),
    };
    for policy in POLICIES {
        let expected = Segment {
            endpoints,
            header: header(),
            payload_offset: 74,
            payload_len: 5,
            tos: 0,
            ttl: 64,
        };
        assert_eq!(segment(SEGMENT, policy), Ok(expected));
    }
}

#[test]
fn templates_write_what_linux_sends() {
    let mut frame = [0xa5; 128];
    let payload = b"market data 42";
    let len = udp_template().emit_one(&mut frame, 77, payload).unwrap();
    assert_eq!(&frame[..len], FULL);
    assert!(frame[len..].iter().all(|byte| *byte == 0xa5));
    let parts: [&[u8]; 3] = [&payload[..3], &[], &payload[3..]];
    let len = udp_template().emit(&mut frame, 78, payload.len(), parts);
    assert_eq!(&frame[..len.unwrap()], FULL);

    let parts: [&[u8]; 2] = [b"hel", b"lo"];
    let len = tcp_template().emit(&mut frame, 79, 0, &header(), parts);
    assert_eq!(&frame[..len.unwrap()], SEGMENT);
}

/// The codepoint of the template's own traffic class does not count.
#[test]
fn a_segment_has_the_ecn_codepoint_that_is_given_for_it() {
    let (source, destination) = ends(40_002, 80);
    let template = Template::new(ETHERNET, source, destination, 3, 0xb9, true);
    let mut frame = [0; 128];
    for ecn in 0..4 {
        let len = template.emit(&mut frame, 0, ecn, &header(), []).unwrap();
        let segment = segment(&frame[..len], ChecksumPolicy::Verify).unwrap();
        assert_eq!((segment.tos, segment.ttl), (0xb8 | ecn, 3));
    }
}

#[test]
fn headers_for_the_device_have_the_sum_that_linux_leaves() {
    let mut headers = [0; Template::MAX_HEADERS_LEN];
    let template = tcp_template();
    let len = template
        .emit_headers(&mut headers, 0, 0, &header(), 5)
        .unwrap();
    assert_eq!(len, template.ip_headers_len() + 20);
    let mut expected = SEGMENT[..len].to_vec();
    // From a capture with the offload switched on.
    expected[70..72].copy_from_slice(&[0x5b, 0x94]);
    assert_eq!(&headers[..len], expected);
    let frame = [&headers[..len], b"hello"].concat();
    assert!(segment(&frame, ChecksumPolicy::AcceptPartial).is_ok());
    assert_eq!(
        segment(&frame, ChecksumPolicy::Verify),
        Err(Malformed::TcpChecksum)
    );
    let most = u32::from(u16::MAX) - 20;
    let lengths = [(most, Some(len)), (most + 1, None)];
    for (payload_len, written) in lengths {
        let emitted = template.emit_headers(&mut headers, 0, 0, &header(), payload_len);
        assert_eq!(emitted, written, "{payload_len}");
    }
}

#[test]
fn the_longest_payload_is_the_limit() {
    let template = udp_template();
    assert_eq!(template.max_payload_len(), 65_527);
    let mut frame = vec![0; 70_000];
    let payload = vec![0xff; template.max_payload_len() + 1];
    assert_eq!(template.emit_one(&mut frame, 1, &payload), None);
    let len = template.emit_one(&mut frame, 1, &payload[1..]).unwrap();
    assert_eq!(len, 65_535 + IP_HEADERS);
    let parsed = udp(&frame[..len], ChecksumPolicy::Verify).unwrap();
    assert_eq!(usize::from(parsed.payload_len), template.max_payload_len());

    let segment_payload = &payload[..65_535 - 20];
    let len = tcp_template().emit(&mut frame, 0, 0, &header(), [segment_payload]);
    assert_eq!(len, Some(65_535 + IP_HEADERS));
    let one_more = [segment_payload, &[0]];
    let len = tcp_template().emit(&mut frame, 0, 0, &header(), one_more);
    assert_eq!(len, None);
}

/// RFC 8200 §8.1: "IPv6 receivers must discard UDP packets containing a zero checksum".
#[test]
fn a_datagram_without_checksum_is_refused_and_none_is_sent() {
    let mut absent = FULL.to_vec();
    absent[60..62].fill(0);
    for policy in POLICIES {
        assert_eq!(udp(&absent, policy), Err(Malformed::UdpChecksum));
    }
    let mut all_ones = 0;
    for value in 0..=u16::MAX {
        let payload = value.to_be_bytes();
        let mut frame = [0; 64];
        let len = udp_template().emit_one(&mut frame, 0, &payload).unwrap();
        all_ones += usize::from(frame[60..62] == [0xff, 0xff]);
        assert!(
            udp(&frame[..len], ChecksumPolicy::Verify).is_ok(),
            "{value}"
        );
    }
    assert_eq!(all_ones, 1);
}

#[test]
fn what_is_not_plainly_udp_or_tcp_is_named() {
    let changed = |offset: usize, bytes: &[u8]| {
        let mut frame = FULL.to_vec();
        frame[offset..offset + bytes.len()].copy_from_slice(bytes);
        frame
    };
    let cases = [
        ("ARP", changed(12, &[0x08, 0x06]), Malformed::NotIp),
        ("VLAN tag", changed(12, &[0x81, 0x00]), Malformed::NotIp),
        ("version 4", changed(14, &[0x4b]), Malformed::NotIpv6),
        ("version 7", changed(14, &[0x7b]), Malformed::NotIpv6),
        (
            "hop-by-hop options",
            changed(20, &[0]),
            Malformed::ExtensionHeader,
        ),
        ("routing", changed(20, &[43]), Malformed::ExtensionHeader),
        ("fragment", changed(20, &[44]), Malformed::Fragment),
        (
            "authentication",
            changed(20, &[51]),
            Malformed::ExtensionHeader,
        ),
        (
            "destination options",
            changed(20, &[60]),
            Malformed::ExtensionHeader,
        ),
        ("mobility", changed(20, &[135]), Malformed::ExtensionHeader),
        (
            "length one more",
            changed(18, &[0, 23]),
            Malformed::Truncated,
        ),
    ];
    for (name, frame, malformed) in cases {
        assert_eq!(ip::parse(&frame).unwrap_err(), malformed, "{name}");
        assert!(!malformed.to_string().is_empty());
    }
    let cases = [
        (
            "length one less",
            changed(18, &[0, 21]),
            Malformed::LengthMismatch,
        ),
        (
            "length of a jumbogram",
            changed(18, &[0, 0]),
            Malformed::LengthMismatch,
        ),
        (
            "UDP length one more",
            changed(58, &[0, 23]),
            Malformed::LengthMismatch,
        ),
        (
            "UDP length zero",
            changed(58, &[0, 0]),
            Malformed::LengthMismatch,
        ),
        ("other source", changed(37, &[9]), Malformed::UdpChecksum),
        ("other port", changed(57, &[0]), Malformed::UdpChecksum),
        ("other payload", changed(65, b"K"), Malformed::UdpChecksum),
    ];
    for (name, frame, malformed) in cases {
        for policy in POLICIES {
            assert_eq!(udp(&frame, policy), Err(malformed), "{name}");
        }
    }
}

/// What no checksum covers: traffic class, flow label and hop limit change on the way.
#[test]
fn a_flow_label_does_not_matter() {
    let mut frame = FULL.to_vec();
    frame[15..18].copy_from_slice(&[0x8f, 0xff, 0xff]);
    assert_eq!(
        udp(&frame, ChecksumPolicy::Verify),
        udp(FULL, ChecksumPolicy::Verify)
    );
}

#[test]
fn every_truncation_is_rejected() {
    for frame in [FULL, SEGMENT] {
        for len in 0..frame.len() {
            let error = ip::parse(&frame[..len]).unwrap_err();
            assert_eq!(error, Malformed::Truncated, "{len}");
        }
        let padded = [frame, &[0xee; 9]].concat();
        assert_eq!(ip::parse(&padded).unwrap().payload, &frame[IP_HEADERS..]);
    }
}

#[test]
fn every_flipped_bit_that_a_checksum_covers_is_noticed() {
    for (frame, is_tcp) in [(FULL, false), (SEGMENT, true)] {
        for bit in 22 * 8..frame.len() * 8 {
            let mut damaged = frame.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let is_noticed = if is_tcp {
                segment(&damaged, ChecksumPolicy::Verify).is_err()
            } else {
                udp(&damaged, ChecksumPolicy::Verify).is_err()
            };
            assert!(is_noticed, "{bit}");
        }
    }
}

/// RFC 8200 §8.1: both addresses, the length in 32 bits, three zero bytes and the next header.
#[test]
fn the_pseudo_header_is_summed_as_it_is_written_down() {
    let addresses = Addresses::V6 {
        source: SOURCE,
        destination: DESTINATION,
    };
    let written = [
        &SOURCE.octets()[..],
        &DESTINATION.octets(),
        &0xabcd_u32.to_be_bytes(),
        &[0, 0, 0, 17],
    ]
    .concat();
    assert_eq!(
        checksum::fold(addresses.pseudo_header(17, 0xabcd)),
        checksum::fold(checksum::sum(&written, 0))
    );
}

/// Nothing is done with such a pair; it must not be worse than a packet to nowhere.
#[test]
fn an_address_of_ipv4_beside_one_of_ipv6_is_mapped() {
    let source: SocketAddr = "192.0.2.1:40000".parse().unwrap();
    let (_, destination) = ends(0, 12_345);
    let template = UdpTemplate::new(ETHERNET, source, destination, 64, 0, true);
    let mut frame = [0; 64];
    let len = template.emit_one(&mut frame, 0, b"x").unwrap();
    let parsed = udp(&frame[..len], ChecksumPolicy::Verify).unwrap();
    assert_eq!(
        parsed.endpoints.source().to_string(),
        "[::ffff:192.0.2.1]:40000"
    );
}
