//! What is on the wire: the frames of an accelerated socket are those that the kernel would have
//! sent.

mod six;

use std::time::Duration;

use testkit::{Namespaces, Pair, RawLink, Running, Skip, or_skip, panic_unless_paused, preloaded};

const IP: usize = 14;

/// A frame without what may differ: identification and checksums.
fn masked(mut frame: Vec<u8>) -> Vec<u8> {
    frame[IP + 4..IP + 6].fill(0);
    frame[IP + 10..IP + 12].fill(0);
    let is_first_fragment = frame[IP + 6] & 0x1f == 0 && frame[IP + 7] == 0;
    if is_first_fragment {
        // Whether there is one may not differ.
        let has_checksum = frame[IP + 26..IP + 28] != [0, 0];
        frame[IP + 26..IP + 28].fill(u8::from(has_checksum));
    }
    frame
}

fn sum(bytes: &[u8]) -> u32 {
    let words = bytes.chunks(2);
    let mut sum = words
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// The IP checksum is right; the UDP checksum is right, absent, or as far as the kernel leaves it
/// to a device: the sum of the pseudo header.
fn assert_checksums(frame: &[u8]) {
    assert_eq!(sum(&frame[IP..IP + 20]), 0xffff, "IP checksum: {frame:x?}");
    let is_fragment = frame[IP + 6] & 0x3f != 0 || frame[IP + 7] != 0;
    if is_fragment || frame[IP + 26..IP + 28] == [0, 0] {
        return;
    }
    let udp = &frame[IP + 20..];
    let pseudo = [&frame[IP + 12..IP + 20], &[0, 17], &udp[4..6]].concat();
    let is_whole = sum(&[&pseudo, udp].concat()) == 0xffff;
    let is_partial = sum(&pseudo) == u32::from(udp[6]) << 8 | u32::from(udp[7]);
    assert!(is_whole || is_partial, "UDP checksum: {frame:x?}");
}

/// Hardware addresses, the same in all runs.
fn give_addresses(pair: &Pair) {
    let addresses = [
        (&pair.a, "va", "02:00:00:00:00:0a"),
        (&pair.b, "vb", "02:00:00:00:00:0b"),
    ];
    for (namespace, link, mac) in addresses {
        namespace
            .ip(&["link", "set", link, "address", mac])
            .unwrap();
    }
}

/// What the program prints, and its frames.
fn frames(with_library: bool) -> Result<(String, Vec<Vec<u8>>), Skip> {
    let pair = Namespaces::pair()?;
    give_addresses(&pair);
    // The kernel cuts what leaves as several datagrams by itself, and not at the other end.
    pair.b
        .ip(&["link", "set", "vb", "gso_max_segs", "1"])
        .unwrap();
    // Somebody listens, or there would be ICMP errors.
    let _listener = pair
        .a
        .enter(|| std::net::UdpSocket::bind((Pair::ADDRESS_A, 7000)))
        .unwrap();
    let link = RawLink::open(&pair.a, "va").unwrap();
    let program = testkit::c_program("headers");
    let command = if with_library {
        let mut command = preloaded(&pair.b, &program).unwrap();
        command.env("VMA_TRACELEVEL", "debug");
        command
    } else {
        pair.b.command(&program)
    };
    let finished = Running::start(command)
        .unwrap()
        .wait(Duration::from_secs(60))
        .unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert!(!with_library || finished.stderr.contains(": offloaded"));
    let mut frames = Vec::new();
    let is_udp =
        |frame: &[u8]| frame.len() > IP + 20 && frame[12..14] == [8, 0] && frame[IP + 9] == 17;
    while let Some(frame) = link
        .receive_matching(Duration::from_millis(200), is_udp)
        .unwrap()
    {
        assert_checksums(&frame);
        frames.push(masked(frame));
    }
    Ok((finished.stdout, frames))
}

#[test]
fn frames_are_those_of_the_kernel() {
    panic_unless_paused(|| {
        let (expected_words, expected) = or_skip!(frames(false));
        let (words, seen) = or_skip!(frames(true));
        assert_eq!(expected_words, words);
        assert!(expected.len() > 100, "{} frames", expected.len());
        for (index, (expected, seen)) in expected.iter().zip(&seen).enumerate() {
            let text = String::from_utf8_lossy(seen.get(IP + 28..).unwrap_or_default());
            assert_eq!(expected, seen, "frame {index}: {text}");
        }
        assert_eq!(expected.len(), seen.len());
    });
}
