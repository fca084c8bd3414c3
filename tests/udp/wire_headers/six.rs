//! The same over IPv6: hop limits, traffic classes, flow labels.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use testkit::{
    Echo, Namespaces, Pair, RawLink, Running, Skip, or_skip, panic_unless_paused, preloaded,
};

use super::{IP, give_addresses, sum};

/// Behind the Ethernet and IPv6 headers.
const BEHIND: usize = IP + 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FRAGMENT: u8 = 44;

const PROGRAM: &str = r"
import socket, struct, time
IP6, HOPS, CLASS, AUTO_LABEL = socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, socket.IPV6_TCLASS, 70
to = 'fd77::1', 7000

def udp(address, port):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.bind((address, port))
    return s

def send(s, text, *control):
    print(s.sendmsg([text.encode()], control, 0, to))
    # In order on the wire, whichever way each goes.
    time.sleep(0.02)

s, any = udp('fd77::2', 7900), udp('::', 7901)
send(s, 'asks for the neighbour')
time.sleep(0.2)
for text in '', 'x', 'odd', 'a datagram longer than the smallest Ethernet frame, without padding':
    send(s, text)
for hops in 1, 128, 255, -1:
    s.setsockopt(IP6, HOPS, hops)
    send(s, 'hops')
for value in range(0, 256, 0x1c):
    s.setsockopt(IP6, CLASS, value)
    send(s, 'class')
s.setsockopt(IP6, CLASS, 0)
number = struct.Struct('i').pack
for value in 1, 128, 255:
    send(s, 'said', (IP6, socket.IPV6_HOPLIMIT, number(value)))
    send(s, 'said', (IP6, CLASS, number(value)))
    send(s, 'said', (IP6, CLASS, number(value)), (IP6, socket.IPV6_HOPLIMIT, number(value)))
for source in 'fd77::2', '::':
    info = socket.inet_pton(socket.AF_INET6, source) + number(23)
    send(any, 'said', (IP6, socket.IPV6_PKTINFO, info))
for on in 0, 1:
    s.setsockopt(IP6, AUTO_LABEL, on)
    send(s, 'with a label of its own' if on else 'without')
send(any, 'another flow')
send(any, 'z' * 1452)
send(any, 'z' * 2000)
for length in 1280, 0:
    any.setsockopt(IP6, 24, length) # IPV6_MTU
    send(any, 'z' * 1232)
    send(any, 'z' * 1240)
any.setsockopt(socket.IPPROTO_UDP, 101, 1) # UDP_NO_CHECK6_TX
send(any, 'no checksum')
c = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
c.bind(('::', 7902))
c.connect(to)
for value in 0, 9:
    c.setsockopt(IP6, HOPS, value or -1)
    print(c.send(b'connected'))
    time.sleep(0.02)
for label in 1, 0:
    t = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
    t.setsockopt(IP6, AUTO_LABEL, label)
    t.connect(('fd77::1', 7))
    for value in 0, 0x48:
        t.setsockopt(IP6, CLASS, value)
        t.setsockopt(IP6, HOPS, value or 33)
        t.sendall(b'octets')
        print(t.recv(6, socket.MSG_WAITALL))
    t.close()
print('sent')
";

/// A frame without what may differ: checksums, the identification of fragments, and which label it
/// is.
fn masked(mut frame: Vec<u8>) -> Vec<u8> {
    let has_label = flow_label(&frame) != 0;
    frame[IP + 1] &= 0xf0;
    frame[IP + 2..IP + 4].copy_from_slice(&[0, u8::from(has_label)]);
    let udp = match frame[IP + 6] {
        FRAGMENT => {
            frame[BEHIND + 4..BEHIND + 8].fill(0);
            let is_first = frame[BEHIND + 2..BEHIND + 4] == [0, 1];
            is_first.then_some(BEHIND + 8)
        }
        _ => Some(BEHIND),
    };
    if let Some(udp) = udp {
        // Whether there is one may not differ.
        let has_checksum = frame[udp + 6..udp + 8] != [0, 0];
        frame[udp + 6..udp + 8].fill(u8::from(has_checksum));
    }
    frame
}

fn flow_label(frame: &[u8]) -> u32 {
    u32::from_be_bytes([0, frame[IP + 1] & 0xf, frame[IP + 2], frame[IP + 3]])
}

/// The UDP checksum is right, absent, or as far as the kernel leaves it to a device.
fn assert_checksum(frame: &[u8]) {
    if frame[IP + 6] != UDP || frame[BEHIND + 6..BEHIND + 8] == [0, 0] {
        return;
    }
    let udp = &frame[BEHIND..];
    let pseudo = [&frame[IP + 8..BEHIND], &[0, UDP], &udp[4..6]].concat();
    let is_whole = sum(&[&pseudo, udp].concat()) == 0xffff;
    let is_partial = sum(&pseudo) == u32::from(udp[6]) << 8 | u32::from(udp[7]);
    assert!(is_whole || is_partial, "UDP checksum: {frame:x?}");
}

/// What is seen of a run.
#[derive(Debug, Default)]
struct Seen {
    words: String,
    datagrams: Vec<Vec<u8>>,
    /// Source ports and flow labels of whole datagrams.
    labels: BTreeSet<(u16, u32)>,
    /// Traffic class, whether there is a flow label, hop limit, and whether it is a SYN of each
    /// segment.
    segments: BTreeSet<(u8, bool, u8, bool)>,
}

fn run(with_library: bool) -> Result<Seen, Skip> {
    let pair = Namespaces::new().ipv6().create()?;
    give_addresses(&pair);
    // Somebody listens, or there would be ICMP errors.
    let _listener = pair
        .a
        .enter(|| std::net::UdpSocket::bind((Pair::IPV6_ADDRESS_A, 7000)))
        .unwrap();
    let _echo = Echo::start(&pair.a, Pair::IPV6_ADDRESS_A).unwrap();
    let link = RawLink::open(&pair.a, "va").unwrap();
    let mut command = if with_library {
        let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
        command.env("VMA_TRACELEVEL", "debug");
        command
    } else {
        pair.b.command("python3")
    };
    command.args(["-c", PROGRAM]);
    let finished = Running::start(command)
        .unwrap()
        .wait(Duration::from_secs(60))
        .unwrap();
    assert!(finished.status.success(), "{finished:?}");
    assert!(!with_library || finished.stderr.contains(": offloaded"));
    assert!(!with_library || finished.stderr.contains(": past the kernel by vb"));
    let mut seen = Seen {
        words: finished.stdout,
        ..Seen::default()
    };
    let is_ours = |frame: &[u8]| {
        let is_v6 = frame.len() > BEHIND + 8 && frame[12..14] == [0x86, 0xdd];
        let is_sent = frame.get(6..12) == Some(&[2, 0, 0, 0, 0, 0xb]);
        is_v6 && is_sent && [TCP, UDP, FRAGMENT].contains(&frame[IP + 6])
    };
    while let Some(frame) = link
        .receive_matching(Duration::from_millis(200), is_ours)
        .unwrap()
    {
        let label = flow_label(&frame);
        if frame[IP + 6] == TCP {
            let class = frame[IP] << 4 | frame[IP + 1] >> 4;
            let is_syn = frame[BEHIND + 13] & 2 != 0;
            seen.segments
                .insert((class, label != 0, frame[IP + 7], is_syn));
            continue;
        }
        assert_checksum(&frame);
        if frame[IP + 6] == UDP && label != 0 {
            let port = u16::from_be_bytes([frame[BEHIND], frame[BEHIND + 1]]);
            seen.labels.insert((port, label));
        }
        seen.datagrams.push(masked(frame));
    }
    Ok(seen)
}

#[test]
fn frames_are_those_of_the_kernel() {
    panic_unless_paused(|| {
        let expected = or_skip!(run(false));
        let seen = or_skip!(run(true));
        assert_eq!(expected.words, seen.words);
        assert!(expected.datagrams.len() > 35, "{expected:x?}");
        for (index, (expected, seen)) in expected.datagrams.iter().zip(&seen.datagrams).enumerate()
        {
            let text = String::from_utf8_lossy(seen.get(BEHIND + 8..).unwrap_or_default());
            assert_eq!(expected, seen, "frame {index}: {text}");
        }
        assert_eq!(expected.datagrams.len(), seen.datagrams.len());
        assert_eq!(expected.segments, seen.segments);
        // The kernel itself, and each flow that went one way only: one label a flow, and others
        // have others.
        let of = |seen: &Seen, port: u16| -> Vec<u32> {
            let labels = seen.labels.iter().filter(|it| it.0 == port);
            labels.map(|it| it.1).collect()
        };
        let flows = [7900, 7902];
        let labels: BTreeSet<_> = flows.map(|port| of(&expected, port)).into();
        assert!(
            labels.len() == 2 && labels.iter().all(|it| it.len() == 1),
            "{labels:x?}"
        );
        assert_eq!(of(&seen, 7902).len(), 1);
    });
}
