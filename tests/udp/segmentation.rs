//! Datagrams that a kernel sender leaves to be cut later (`UDP_SEGMENT`): the receiver gets each
//! one, whatever the XDP mode.

use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use testkit::{
    Accelerated, Namespaces, Pair, Skip, eventually, or_skip, panic_unless_paused, preloaded,
};

const TIMEOUT: Duration = Duration::from_secs(60);
const PORT: u16 = 7810;

/// What is sent in one call, and the size of a datagram.
const SENDS: &[(usize, usize)] = &[
    (300, 100),
    (1000, 100),
    // The last one is short.
    (250, 100),
    (1450, 700),
    (101, 100),
    // QUIC.
    (1200, 1200),
    (6000, 1200),
    (13_000, 1200),
    // More than a frame.
    (14_000, 1400),
    (60_000, 1472),
];
/// The first cases of the issue: 100 calls of ten datagrams each.
const MANY: usize = 100;
/// Datagrams that are sent as they are, between the others.
const PLAIN: usize = 50;

/// One send call that the kernel cuts into datagrams of `segment` bytes, as late as it can.
fn send_segmented(sender: &UdpSocket, total: usize, segment: usize) {
    const UDP_SEGMENT: i32 = 103;
    let segment = i32::try_from(segment).unwrap();
    let len = libc::socklen_t::try_from(size_of_val(&segment)).unwrap();
    let value = (&raw const segment).cast();
    let fd = sender.as_raw_fd();
    // SAFETY: the kernel reads `len` bytes, the size of `segment`.
    let result = unsafe { libc::setsockopt(fd, libc::SOL_UDP, UDP_SEGMENT, value, len) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    let data: Vec<u8> = (b'a'..=b'z').cycle().take(total).collect();
    sender.send(&data).unwrap();
}

fn send_all(sender: &UdpSocket) {
    for &(total, segment) in SENDS {
        send_segmented(sender, total, segment);
        std::thread::sleep(Duration::from_millis(20));
    }
    for number in 0..MANY {
        send_segmented(sender, 1000, 100);
        if number.is_multiple_of(MANY / PLAIN) {
            // Not larger than a segment, so there is nothing to cut.
            sender.send(format!("plain {number}").as_bytes()).unwrap();
        }
        if number.is_multiple_of(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What a receiver says of them.
struct Received {
    datagrams: Vec<String>,
    /// Those that came past the kernel.
    accelerated: u64,
    mode: String,
    note: String,
}

fn receiver() -> PathBuf {
    testkit::c_program("receiver")
}

fn received(pair: &Pair, mut command: Command, with_library: bool) -> Received {
    command.args([&Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
    let mut receiver = Accelerated::start(command).unwrap();
    assert!(
        receiver.process().wait_for_output("ready", TIMEOUT),
        "{}",
        receiver.process().stderr()
    );
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    sender.connect((Pair::ADDRESS_B, PORT)).unwrap();
    send_all(&sender);
    std::thread::sleep(Duration::from_millis(300));
    let (mut accelerated, mut mode, mut note) = (0, String::new(), String::new());
    if with_library {
        accelerated = receiver.sockets().iter().map(|it| it.rx_packets).sum();
        let reader = receiver.reader();
        mode = reader.rings().unwrap().remove(0).mode;
        let notes = reader.notes().unwrap().into_iter();
        note = notes.map(|note| note.text).collect();
    }
    sender.send(b"end").unwrap();
    let finished = receiver.into_process().wait(TIMEOUT).unwrap();
    // What comes through the kernel may be overtaken. The sender's port is anyone.
    let line = |line: &str| {
        let words: Vec<_> = line.split(' ').collect();
        [&words[..2.min(words.len())], words.get(3..).unwrap_or(&[])]
            .concat()
            .join(" ")
    };
    let mut datagrams: Vec<_> = finished.stdout.lines().map(line).collect();
    datagrams.sort_unstable();
    Received {
        datagrams,
        accelerated,
        mode,
        note,
    }
}

/// A receiver on the kernel, and one that `command` makes, get the same.
fn compare(command: impl Fn(&Pair) -> Command) -> Result<Received, Skip> {
    let pair = Namespaces::pair()?;
    let expected = received(&pair, pair.b.command(receiver()), false);
    let pair = Namespaces::pair()?;
    let seen = received(&pair, command(&pair), true);
    assert_eq!(
        expected.datagrams.len(),
        seen.datagrams.len(),
        "{}",
        seen.mode
    );
    assert_eq!(expected.datagrams, seen.datagrams, "{}", seen.mode);
    assert!(
        seen.accelerated >= PLAIN as u64,
        "{}: {} past the kernel",
        seen.mode,
        seen.accelerated
    );
    Ok(seen)
}

fn in_mode(mode: &'static str) -> impl Fn(&Pair) -> Command {
    move |pair| {
        let mut command = preloaded(&pair.b, &receiver()).unwrap();
        command.env("VMA_XDP_MODE", mode);
        command
    }
}

/// A program that something else starts, with fewer means than root has.
fn started_by(words: &'static [&'static str]) -> impl Fn(&Pair) -> Command {
    move |pair| {
        let mut command = preloaded(&pair.b, Path::new(words[0])).unwrap();
        command.args(&words[1..]).arg(receiver());
        command
    }
}

const WITHOUT_TYPES: &[&str] = &[
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"",
    "sh",
];
const WITHOUT_TRACING: &[&str] = &[
    "setpriv",
    "--inh-caps=-perfmon,-sys_admin",
    "--bounding-set=-perfmon,-sys_admin",
];

#[test]
fn generic_mode_receives_each_datagram() {
    or_skip!(testkit::needs_xdp("merged datagrams"));
    panic_unless_paused(|| {
        for mode in ["auto", "generic"] {
            let seen = or_skip!(compare(in_mode(mode)));
            assert_eq!((&*seen.mode, &*seen.note), ("xdp generic", ""), "{mode}");
        }
    });
}

#[test]
fn native_mode_receives_each_datagram() {
    or_skip!(testkit::needs_xdp("merged datagrams"));
    panic_unless_paused(|| {
        let seen = or_skip!(compare(in_mode("native")));
        assert_eq!((&*seen.mode, &*seen.note), ("xdp native", ""));
    });
}

#[test]
fn without_the_kernels_types_or_tracing_the_mode_is_native() {
    or_skip!(testkit::needs_xdp("merged datagrams"));
    panic_unless_paused(|| {
        for words in [WITHOUT_TYPES, WITHOUT_TRACING] {
            let seen = or_skip!(compare(started_by(words)));
            assert_eq!(seen.mode, "xdp native", "{words:?}");
            assert!(seen.note.starts_with("not generic: "), "{}", seen.note);
        }
    });
}

/// The other program is attached while an interface needs it, and no longer.
#[test]
fn the_tracepoint_is_left_alone_where_nobody_needs_it() {
    or_skip!(testkit::needs_xdp("merged datagrams"));
    let pair = or_skip!(Namespaces::pair());
    for (mode, expected) in [("native", false), ("generic", true)] {
        let mut command = in_mode(mode)(&pair);
        command.args([&Pair::ADDRESS_B.to_string(), &PORT.to_string()]);
        let mut receiver = Accelerated::start(command).unwrap();
        assert!(receiver.process().wait_for_output("ready", TIMEOUT));
        let pid = receiver.process().pid();
        let is_attached = || {
            std::fs::read_dir(format!("/proc/{pid}/fdinfo"))
                .unwrap()
                .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
                .any(|info| info.contains("raw_tracepoint"))
        };
        assert_eq!(is_attached(), expected, "{mode}");
        if expected {
            pair.b.ip(&["link", "del", "vb"]).unwrap();
            let detached = eventually(TIMEOUT, || !is_attached());
            assert!(detached, "the interface is gone, the program is not");
        }
    }
}
