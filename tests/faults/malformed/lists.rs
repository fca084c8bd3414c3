//! What can be wrong with a frame: lists of frames, good ones among them.

use crate::malformed::frames::{Frame, IP, be, repair_ip_checksum, repair_udp_checksum};

/// Where the UDP header begins, without IP options.
const UDP: usize = IP + 20;

/// One header field wrong at a time.
pub(crate) fn bad_fields(good: &Frame) -> Vec<Vec<u8>> {
    let set = |text: &str, at: usize, value: &[u8]| {
        good.changed(text, |bytes| {
            bytes[at..at + value.len()].copy_from_slice(value)
        })
    };
    let mut all = vec![
        good.with_payload(b"good").bytes(),
        good.with_payload(b"").bytes(),
        set("checksum zero", UDP + 6, &[0, 0]),
        set("bad UDP checksum", UDP + 6, &[0x12, 0x34]),
        set("other port", UDP + 2, &[0x12, 0x34]),
        set("source port 0", UDP, &[0, 0]),
        set("IP version 6", IP, &[0x65]),
        set("IP version 0", IP, &[0x05]),
        set("header of 16 bytes", IP, &[0x44]),
        set("header of 0 bytes", IP, &[0x40]),
        set("header of 60 bytes, too few", IP, &[0x4f]),
        set("service class", IP + 1, &[0xff]),
        set("TTL 0", IP + 8, &[0]),
        set("TTL 1", IP + 8, &[1]),
        set("TCP", IP + 9, &[6]),
        set("ICMP", IP + 9, &[1]),
        set("UDP-Lite", IP + 9, &[136]),
        set("reserved bit", IP + 6, &[0x80, 0]),
        set("no flags", IP + 6, &[0, 0]),
        set("identification", IP + 4, &[0, 0]),
    ];
    let mut bad = good.with_payload(b"bad IP checksum").bytes();
    bad[IP + 10] ^= 0x55;
    all.push(bad);
    for len in [0, 1, 7, 8, 9, 20, 0x7fff, 0xffff] {
        let text = format!("UDP length {len}");
        all.push(set(&text, UDP + 4, &be(len)));
        // With a sum that fits, or none at all.
        let mut repaired = set(&format!("{text}, repaired"), UDP + 4, &be(len));
        repair_udp_checksum(&mut repaired);
        all.push(repaired);
        let mut none = set(&format!("{text}, no sum"), UDP + 4, &be(len));
        none[UDP + 6..UDP + 8].fill(0);
        all.push(none);
    }
    for len in [0, 19, 20, 21, 27, 28, 29, 1000, 0xffff] {
        all.push(set(&format!("IP length {len}"), IP + 2, &be(len)));
        let mut none = set(&format!("IP length {len}, no sum"), IP + 2, &be(len));
        none[UDP + 6..UDP + 8].fill(0);
        all.push(none);
    }
    all.push(good.changed("padded", |bytes| bytes.extend([0xee; 30])));
    all.push(good.changed("one byte of padding", |bytes| bytes.push(0xee)));
    let options: [(&str, &[u8]); 12] = [
        ("no operation", &[1, 1, 1, 0]),
        ("forty bytes", &[1; 40]),
        ("end, then anything", &[0, 9, 9, 9]),
        ("record route", &[7, 7, 4, 0, 0, 0, 0, 0]),
        ("record route, bad length", &[7, 1, 4, 0]),
        ("record route, longer than the header", &[7, 39, 4, 0]),
        ("timestamp", &[68, 8, 5, 0, 0, 0, 0, 0]),
        ("strict source route", &[137, 7, 4, 10, 77, 0, 1, 0]),
        ("loose source route", &[131, 7, 8, 10, 77, 0, 1, 0]),
        ("router alert", &[148, 4, 0, 0]),
        ("unknown", &[30, 4, 0, 0]),
        ("unknown, no length", &[30, 0, 0, 0]),
    ];
    for (name, options) in options {
        let text = format!("IP options, {name}");
        all.push(
            good.with_payload(text.as_bytes())
                .with_options(options)
                .bytes(),
        );
    }
    let mut other = good.clone();
    other.destination_mac[5] ^= 1;
    all.push(
        other
            .with_payload(b"wrong destination hardware address")
            .bytes(),
    );
    all
}

/// The pieces of a datagram of `len` bytes: `cuts` are offsets in its IP payload, multiples of
/// eight.
fn pieces(good: &Frame, identification: u16, len: usize, cuts: &[usize]) -> Vec<Vec<u8>> {
    let whole = good.with_payload(&vec![b'f'; len]).bytes();
    let body = &whole[UDP..];
    let mut cuts = cuts.to_vec();
    cuts.push(body.len());
    cuts.windows(2)
        .map(|range| {
            let last = range[1] == body.len();
            piece(
                &whole,
                identification,
                range[0],
                &body[range[0]..range[1]],
                last,
            )
        })
        .collect()
}

fn piece(whole: &[u8], identification: u16, offset: usize, body: &[u8], last: bool) -> Vec<u8> {
    let mut bytes = [&whole[..UDP], body].concat();
    bytes[IP + 2..IP + 4].copy_from_slice(&be(20 + body.len()));
    bytes[IP + 4..IP + 6].copy_from_slice(&identification.to_be_bytes());
    let field = (offset / 8) | (usize::from(!last) << 13);
    bytes[IP + 6..IP + 8].copy_from_slice(&be(field));
    repair_ip_checksum(&mut bytes);
    bytes
}

/// Whole, incomplete and overlapping sets of fragments, among datagrams of the same port.
pub(crate) fn fragments(good: &Frame) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let single = |text: &str| good.with_payload(text.as_bytes()).bytes();
    all.extend(pieces(good, 1, 2000, &[0, 1000]));
    all.push(single("good"));
    all.extend(pieces(good, 2, 2000, &[0, 800, 1600]).into_iter().rev());
    // The first piece holds the UDP header and looks like a datagram with a length too large.
    all.push(pieces(good, 3, 2000, &[0, 1000]).remove(0));
    all.push(pieces(good, 4, 2000, &[0, 1000]).remove(1));
    // A first piece with a UDP header that fits it.
    let mut first = single("only first");
    first[IP + 6..IP + 8].copy_from_slice(&[0x20, 0]);
    repair_ip_checksum(&mut first);
    all.push(first);
    let mut last = single("only last");
    last[IP + 6..IP + 8].copy_from_slice(&[0, 100]);
    repair_ip_checksum(&mut last);
    all.push(last);
    let mut both = single("unfragmentable fragment");
    both[IP + 6..IP + 8].copy_from_slice(&[0x60, 0]);
    repair_ip_checksum(&mut both);
    all.push(both);
    // Overlapping, twice the same, beyond the end, of no length, larger than a datagram can be.
    let whole = good.with_payload(&[b'f'; 1500]).bytes();
    let body = &whole[UDP..];
    all.push(piece(&whole, 10, 0, &body[..1000], false));
    all.push(piece(&whole, 10, 800, &body[800..], true));
    let twice = pieces(good, 11, 1500, &[0, 800]);
    all.extend([twice[0].clone(), twice[0].clone(), twice[1].clone()]);
    all.push(piece(&whole, 12, 0, &body[..800], false));
    all.push(piece(&whole, 12, 65_528, &body[..400], true));
    all.push(piece(&whole, 13, 0, &[], false));
    all.push(piece(&whole, 13, 8, &body[..8], true));
    all.push(piece(&whole, 14, 0, &body[..7], false));
    all.push(single("good"));
    all.extend(pieces(good, 15, 2000, &[0, 8]));
    all
}

/// Senders and receivers that are not what they should be.
pub(crate) fn odd_addresses(good: &Frame) -> Vec<Vec<u8>> {
    let mut all = vec![good.with_payload(b"good").bytes()];
    let addresses = [
        [10, 77, 0, 2],
        // The receiver's second address, and that of its loopback interface.
        [10, 77, 0, 3],
        [10, 88, 0, 1],
        [10, 77, 0, 9],
        [10, 77, 0, 255],
        [10, 77, 0, 0],
        [127, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 5],
        [255, 255, 255, 255],
        [224, 0, 0, 1],
        [239, 1, 2, 3],
        [240, 0, 0, 1],
        [192, 0, 2, 1],
        [169, 254, 1, 1],
        [127, 255, 255, 255],
        [0, 255, 255, 255],
        [223, 255, 255, 255],
        [247, 255, 255, 255],
        [10, 77, 1, 255],
    ];
    for address in addresses {
        let text = address.map(|byte: u8| byte.to_string()).join(".");
        let mut frame = good.with_payload(format!("source {text}").as_bytes());
        frame.source = address;
        all.push(frame.bytes());
        let mut frame = good.with_payload(format!("destination {text}").as_bytes());
        frame.destination = address;
        all.push(frame.bytes());
        // Each class in a frame to everybody, too.
        let mut frame = good.with_payload(format!("to everybody, source {text}").as_bytes());
        frame.source = address;
        frame.destination_mac = [0xff; 6];
        all.push(frame.bytes());
        let mut frame = good.with_payload(format!("to everybody, destination {text}").as_bytes());
        frame.destination = address;
        frame.destination_mac = [0xff; 6];
        all.push(frame.bytes());
    }
    all
}

/// Destination and type of the Ethernet header, and 802.1Q tags.
pub(crate) fn link_layer(good: &Frame) -> Vec<Vec<u8>> {
    let mut all = vec![good.with_payload(b"good").bytes()];
    let tagged = |text: &str, tag: &[u8]| {
        let mut bytes = good.with_payload(text.as_bytes()).bytes();
        bytes.splice(12..12, tag.iter().copied());
        bytes
    };
    all.push(tagged("tagged for VLAN 5", &[0x81, 0, 0, 5]));
    all.push(tagged("tagged with priority only", &[0x81, 0, 0xe0, 0]));
    all.push(tagged("tagged by a provider", &[0x88, 0xa8, 0, 5]));
    all.push(tagged("tagged twice", &[0x81, 0, 0, 5, 0x81, 0, 0, 6]));
    let destinations = [
        ("to everybody", [0xff; 6]),
        ("to a group", [1, 0, 0x5e, 0, 0, 1]),
        ("to another", [2, 9, 9, 9, 9, 9]),
        ("to nobody", [0; 6]),
    ];
    for (text, destination_mac) in destinations {
        let frame = good.with_payload(text.as_bytes());
        all.push(
            Frame {
                destination_mac,
                ..frame
            }
            .bytes(),
        );
    }
    for kind in [[0x08, 0x06], [0x86, 0xdd], [0, 60], [0x88, 0xcc], [0, 0]] {
        all.push(good.changed(&format!("type {kind:x?}"), |bytes| {
            bytes[12..14].copy_from_slice(&kind)
        }));
    }
    let from_group = Frame {
        source_mac: [1, 2, 3, 4, 5, 6],
        ..good.with_payload(b"from a group")
    };
    all.push(from_group.bytes());
    all
}
