//! Packets with a VLAN tag that is not in the frame: the peer's kernel keeps it beside, as a card
//! does that strips tags. They are another network's, though they have our addresses; the kernel's
//! socket does not get them, and an accelerated one must not.

mod tagger;

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use tagger::Tagger;
use testkit::{Accelerated, Namespaces, Pair, Skip, or_skip, panic_unless_paused, preloaded};

const TIMEOUT: Duration = Duration::from_secs(60);
const PORT: u16 = 7820;

/// Tags to send with: none, VLANs, and a priority alone, which belongs to this network (IEEE 802.1Q, VLAN 0).
const TAGS: &[u16] = &[0, 5, 0x2000, 0x2005, 4094, 0, 1];
const ROUNDS: usize = 20;
const UNTAGGED: usize = 2 * ROUNDS;

/// Sends a datagram that gets the tag on its way out.
fn send(sender: &UdpSocket, tag: u16, text: &str) {
    let mark = tagger::mark(tag);
    let len = libc::socklen_t::try_from(size_of_val(&mark)).unwrap();
    let value = (&raw const mark).cast();
    let fd = sender.as_raw_fd();
    // SAFETY: the kernel reads `len` bytes, the size of `mark`.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_MARK, value, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    sender.send(text.as_bytes()).unwrap();
}

/// What a receiver says, with how many came past the kernel; `mode`: with the library.
fn received(mode: Option<&str>) -> Result<(Vec<String>, u64), Skip> {
    let pair = Namespaces::pair()?;
    let _tagger = pair.a.enter(|| Tagger::attach("va"))?;
    let program = testkit::c_program("receiver");
    let mut command = match mode {
        Some(mode) => {
            let mut command = preloaded(&pair.b, &program).unwrap();
            command.env("VMA_XDP_MODE", mode);
            command
        }
        None => pair.b.command(&program),
    };
    command.args([&Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    let mut receiver = Accelerated::start(command).unwrap();
    assert!(receiver.process().wait_for_output("ready", TIMEOUT));
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 7821)))
        .unwrap();
    sender.connect((Pair::ADDRESS_B, PORT)).unwrap();
    for round in 0..ROUNDS {
        for (index, tag) in TAGS.iter().enumerate() {
            send(&sender, *tag, &format!("{round} {index} tag {tag:#x}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(200));
    let accelerated = match mode {
        Some(_) => receiver.sockets().iter().map(|it| it.rx_packets).sum(),
        None => 0,
    };
    send(&sender, 0, "end");
    let finished = receiver.into_process().wait(TIMEOUT).unwrap();
    let mut lines: Vec<_> = finished.stdout.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Ok((lines, accelerated))
}

#[test]
fn other_networks_packets_are_not_received() {
    panic_unless_paused(|| {
        let (expected, _) = or_skip!(received(None));
        let with_tag = |tag: &str| expected.iter().filter(|line| line.ends_with(tag)).count();
        assert_eq!(with_tag("tag 0x0"), UNTAGGED);
        assert_eq!((with_tag("tag 0x2000"), with_tag("tag 0x5")), (ROUNDS, 0));
        for mode in ["auto", "generic", "native"] {
            let (seen, accelerated) = or_skip!(received(Some(mode)));
            assert_eq!(expected, seen, "{mode}");
            assert!(accelerated >= UNTAGGED as u64, "{mode}: {accelerated}");
        }
    });
}
