//! TCP segments through `tcp::Template` and back through `parse_tcp4`, whole and damaged.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use wire::ip::Addresses;
use wire::tcp::{self, FastOpen, Flags, Header, Options, SackBlock, Template, Timestamps};
use wire::{ChecksumPolicy, EthernetAddresses, Malformed, checksum};

const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 40_000);
const DESTINATION: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);

fn template() -> Template {
    let eth = EthernetAddresses {
        source: [2, 0, 0, 0, 0, 1],
        destination: [2, 0, 0, 0, 0, 2],
    };
    Template::new(eth, SOURCE, DESTINATION, 64, 0x10, true)
}

fn frame(header: &Header, parts: &[&[u8]]) -> Vec<u8> {
    let mut frame = vec![0xee; 9100];
    let len = template()
        .emit(&mut frame, 7, 2, header, parts.iter().copied())
        .unwrap();
    frame.truncate(len);
    frame
}

fn header() -> Header {
    Header {
        seq: 0xffff_fff0,
        ack: 17,
        flags: Flags::ACK | Flags::PSH,
        window: 502,
        urgent: 0,
        options: Options {
            timestamps: Some(Timestamps { value: 5, echo: 6 }),
            ..Options::default()
        },
    }
}

fn parse(frame: &[u8]) -> Result<tcp::Segment, Malformed> {
    tcp::parse_tcp4(frame, ChecksumPolicy::Verify)
}

// Requirement: RFC 9293 MUST-2
#[test]
fn a_segment_comes_back_with_everything_it_had() {
    let frame = frame(&header(), &[b"abc", b"", b"defg"]);
    let segment = parse(&frame).unwrap();
    assert_eq!(segment.header, header());
    assert_eq!(segment.endpoints.source(), SOURCE.into());
    assert_eq!(segment.endpoints.destination(), DESTINATION.into());
    assert_eq!((segment.tos, segment.ttl), (0x12, 64));
    let start = usize::from(segment.payload_offset);
    assert_eq!(
        &frame[start..start + usize::from(segment.payload_len)],
        b"abcdefg"
    );
}

#[test]
fn every_truncation_is_rejected() {
    let frame = frame(&header(), &[b"payload"]);
    for len in 0..frame.len() {
        assert_eq!(parse(&frame[..len]), Err(Malformed::Truncated), "{len}");
    }
}

#[test]
fn ethernet_padding_is_not_payload() {
    let mut frame = frame(&header(), &[b"x"]);
    frame.extend_from_slice(&[0xaa; 20]);
    assert_eq!(parse(&frame).unwrap().payload_len, 1);
}

// Requirement: RFC 9293 MUST-3
#[test]
fn every_flipped_bit_behind_the_ip_header_is_noticed() {
    let frame = frame(&header(), &[b"payload"]);
    for bit in 34 * 8..frame.len() * 8 {
        let mut damaged = frame.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = parse(&damaged).unwrap_err();
        let is_offset = bit / 8 == 46 && bit % 8 >= 4;
        assert!(
            error == Malformed::TcpChecksum || is_offset && error == Malformed::LengthMismatch,
            "{bit}: {error:?}"
        );
    }
}

#[test]
fn a_data_offset_outside_the_segment_is_rejected() {
    let frame = frame(&Header::default(), &[]);
    for words in [0u8, 1, 4, 6, 15] {
        let mut damaged = frame.clone();
        damaged[46] = words << 4;
        assert_eq!(parse(&damaged), Err(Malformed::LengthMismatch), "{words}");
    }
}

#[test]
fn an_ip_packet_too_short_for_the_header_is_rejected() {
    let mut frame = frame(&Header::default(), &[]);
    frame[17] -= 1;
    frame[24..26].copy_from_slice(&[0, 0]);
    let sum = !checksum::fold(checksum::sum(&frame[14..34], 0));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(parse(&frame), Err(Malformed::LengthMismatch));
}

/// A segment with `payload` behind an IP header with these options.
fn with_ip_options(options: &[u8]) -> Vec<u8> {
    let mut frame = frame(&header(), &[b"payload"]);
    frame.splice(34..34, options.iter().copied());
    let len = u8::try_from(options.len()).unwrap();
    frame[14] += len / 4;
    frame[17] += len;
    frame[24..26].copy_from_slice(&[0, 0]);
    let end = 34 + options.len();
    let sum = !checksum::fold(checksum::sum(&frame[14..end], 0));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// As `__ip_options_compile` and `ip_rcv_options` (kernel).
#[test]
fn broken_ip_options_and_source_routes_are_refused() {
    for good in [
        &[0, 9, 9, 9],
        &[1, 1, 1, 0],
        &[148, 4, 0, 0],
        &[7, 3, 4, 1],
        &[94, 2, 94, 2],
    ] {
        let segment = parse(&with_ip_options(good)).unwrap();
        assert_eq!(segment.header, header(), "{good:?}");
    }
    for bad in [
        [131, 3, 4, 0],
        [137, 3, 4, 0],
        [1, 131, 3, 4],
        [7, 5, 4, 0],
        [7, 1, 4, 0],
        [7, 0, 4, 0],
        [7, 3, 4, 7],
    ] {
        let parsed = parse(&with_ip_options(&bad));
        assert_eq!(parsed, Err(Malformed::IpOptions), "{bad:?}");
    }
}

/// RFC 9293 MUST-50: "A TCP implementation MUST ignore unrecognized IP options".
// Requirement: RFC 9293 MUST-50
#[test]
fn ip_options_are_skipped() {
    let plain = frame(&header(), &[b"payload"]);
    for words in 1..=10u8 {
        let mut frame = with_ip_options(&vec![1; usize::from(words) * 4]);
        let segment = parse(&frame).unwrap();
        assert_eq!(segment.header, header());
        assert_eq!(&frame[usize::from(segment.payload_offset)..], b"payload");
        for len in 0..frame.len() {
            assert_eq!(parse(&frame[..len]), Err(Malformed::Truncated), "{len}");
        }
        frame[35] ^= 1;
        assert_eq!(parse(&frame), Err(Malformed::IpChecksum));
    }
    let mut short = plain;
    short[14] = 0x44;
    assert_eq!(parse(&short), Err(Malformed::HeaderLength));
}

#[test]
fn partial_checksum_is_accepted_only_where_asked_for() {
    let mut frame = frame(&header(), &[b"abcd"]);
    let segment_len = u16::try_from(frame.len() - 34).unwrap();
    let addresses = Addresses::V4 {
        source: *SOURCE.ip(),
        destination: *DESTINATION.ip(),
    };
    let sum = addresses.pseudo_header(6, segment_len);
    frame[50..52].copy_from_slice(&checksum::fold(sum).to_be_bytes());
    assert_eq!(parse(&frame), Err(Malformed::TcpChecksum));
    assert!(tcp::parse_tcp4(&frame, ChecksumPolicy::AcceptPartial).is_ok());
}

#[test]
fn udp_is_not_tcp_and_the_other_way_round() {
    let frame = frame(&header(), &[b"abcd"]);
    assert_eq!(
        wire::parse_udp4(&frame, ChecksumPolicy::Verify),
        Err(Malformed::NotUdp)
    );
    let mut udp = frame;
    udp[23] = 17;
    udp[24..26].copy_from_slice(&[0, 0]);
    let sum = !checksum::fold(checksum::sum(&udp[14..34], 0));
    udp[24..26].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(parse(&udp), Err(Malformed::NotTcp));
}

#[test]
fn a_frame_too_small_for_the_segment_is_not_written_over_its_end() {
    let whole = frame(&header(), &[b"abcd"]).len();
    for len in 0..whole {
        let mut frame = vec![0; len];
        let parts: [&[u8]; 1] = [b"abcd"];
        assert_eq!(template().emit(&mut frame, 0, 0, &header(), parts), None);
    }
}

fn any_options() -> impl Strategy<Value = Options> {
    (
        proptest::option::of(1u16..),
        proptest::option::of(0u8..=14),
        any::<bool>(),
        proptest::option::of((any::<u32>(), any::<u32>())),
        proptest::collection::vec((any::<u32>(), any::<u32>()), 0..=3),
        proptest::option::of((0usize..=8, any::<bool>())),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, timestamps, blocks, fast_open)| Options {
                // Only beside the MSS.
                fast_open: fast_open
                    .filter(|_| mss.is_some())
                    .map(|(pairs, is_experimental)| {
                        FastOpen::from_cookie(&[7; 16][..2 * pairs], is_experimental)
                            .unwrap_or_else(|| FastOpen::request(is_experimental))
                    }),
                mss,
                window_scale,
                sack_permitted,
                timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
                // With all the others there is room for two, and a SYN has none anyway.
                sack: if mss.is_none() && window_scale.is_none() && !sack_permitted {
                    blocks
                        .into_iter()
                        .map(|(left, right)| SackBlock { left, right })
                        .collect()
                } else {
                    tcp::SackBlocks::default()
                },
            },
        )
}

proptest! {
    // Requirement: RFC 9293 MUST-5, MUST-64, MUST-68
    #[test]
    fn generated_segments_come_back(
        seq: u32, ack: u32, bits: u8, window: u16, urgent: u16,
        options in any_options(),
        payload in proptest::collection::vec(any::<u8>(), 0..100),
        cut in 0usize..100,
    ) {
        let flags = if options.mss.is_some() || options.window_scale.is_some() || options.sack_permitted {
            Flags::from_bits(bits) | Flags::SYN
        } else {
            Flags::from_bits(bits)
        };
        let header = Header { seq, ack, flags, window, urgent, options };
        let (first, second) = payload.split_at(cut.min(payload.len()));
        let frame = frame(&header, &[first, second]);
        let segment = parse(&frame).unwrap();
        prop_assert_eq!(segment.header, header);
        prop_assert_eq!(&frame[usize::from(segment.payload_offset)..], &payload[..]);
    }

    // Requirement: RFC 9293 MUST-7
    #[test]
    fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        let _ = parse(&bytes);
        let _ = Options::parse(&bytes, true);
    }
}

#[test]
fn headers_alone_are_those_of_a_packet_that_the_device_sums() {
    let payload = [7; 4000];
    let mut headers = [0xee; Template::MAX_HEADERS_LEN];
    let len = template()
        .emit_headers(&mut headers, 7, 2, &header(), 4000)
        .unwrap();
    let mut packet = [&headers[..len], &payload].concat();
    let partial = tcp::parse_tcp4(&packet, ChecksumPolicy::AcceptPartial).unwrap();
    assert_eq!(partial.header, header());
    assert_eq!((partial.payload_len, partial.tos), (4000, 0x12));
    assert_eq!(parse(&packet), Err(Malformed::TcpChecksum));
    // As the device does it: from `csum_start` on, with the field as it is (`struct
    // virtio_net_hdr`).
    let sum = !checksum::fold(checksum::sum(&packet[34..], 0));
    packet[50..52].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(packet, frame(&header(), &[&payload]));
}

#[test]
fn headers_of_more_than_an_ip_packet_are_refused() {
    let mut headers = [0; Template::MAX_HEADERS_LEN];
    let most = u32::from(u16::MAX) - 20 - 32;
    let mut emit = |len| template().emit_headers(&mut headers, 0, 0, &header(), len);
    assert_eq!(emit(most), Some(66));
    assert_eq!(emit(most + 1), None);
    assert_eq!(emit(u32::MAX), None);
}
