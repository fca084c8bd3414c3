//! What has to be right around TCP past the kernel: statistics, resets, errors, addresses that are
//! used again, floods.

use std::fs;
use std::io::{Read, Write};
use std::mem;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use stats::TcpSnapshot;
use testkit::{
    Accelerated, Namespace, Namespaces, Pair, RawLink, Running, SOON, echo_streams, or_skip,
    preloaded,
};

const PORT: u16 = 7910;

fn program() -> PathBuf {
    testkit::c_program("tcp_safety")
}

fn accelerated(namespace: &Namespace, case: &str, address: &str, count: usize) -> Command {
    let mut command = preloaded(namespace, &program()).unwrap();
    command
        .env("VMA_TRACELEVEL", "4")
        .args([case, address, &PORT.to_string(), &count.to_string()]);
    command
}

fn wait_for(program: &mut Accelerated, word: &str) {
    let is_there = program.process().wait_for_output(word, SOON);
    let process = program.process();
    assert!(is_there, "{}{}", process.stdout(), process.stderr());
}

fn accepted(listener: &TcpListener, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| listener.accept().unwrap().0).collect()
}

#[test]
fn statistics_have_the_numbers_that_peers_expect() {
    const CONNECTIONS: usize = 5;
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let address = Pair::ADDRESS_B.to_string();
    let command = accelerated(&pair.a, "hold", &address, CONNECTIONS);
    let mut client = Accelerated::start(command).unwrap();
    let peers = accepted(&listener, CONNECTIONS);
    wait_for(&mut client, "ready");
    let rows = |client: &mut Accelerated| client.reader().tcp_connections().unwrap();
    let before = rows(&mut client);
    assert_eq!(before.len(), CONNECTIONS);
    for mut peer in &peers {
        let row = |rows: &[TcpSnapshot]| {
            let local = Some(peer.peer_addr().unwrap());
            rows.iter().find(|row| row.local == local).cloned().unwrap()
        };
        let at_first = row(&before);
        assert_eq!(at_first.peer, Some(peer.local_addr().unwrap()));
        assert_eq!((at_first.state, at_first.fd >= 0), (1, true));
        peer.write_all(b"abc").unwrap();
        // Nobody receives: the internal thread sees it, and it is there long before the gauges.
        let begun = Instant::now();
        while row(&rows(&mut client)).rcv_nxt != at_first.rcv_nxt.wrapping_add(3) {
            assert!(begun.elapsed() < Duration::from_millis(200));
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What a program prints with the library, and its log.
fn finished(command: Command) -> (String, String) {
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    let (out, log) = (finished.stdout, finished.stderr);
    assert!(finished.status.success(), "{out}{log}");
    (out, log)
}

/// The same on the kernel and past it.
fn compared(namespace: &Namespace, case: &str, address: &str, count: usize) {
    let mut command = namespace.command(program());
    command.args([case, address, &PORT.to_string(), &count.to_string()]);
    let (expected, _) = finished(command);
    let (seen, log) = finished(accelerated(namespace, case, address, count));
    assert_eq!(seen, expected, "{address}: {log}");
    assert!(log.contains("past the kernel by v"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

fn write_in(namespace: &Namespace, file: &str, value: &str) {
    namespace.enter(|| fs::write(file, value)).unwrap();
}

#[test]
fn icmp_fails_connects_as_on_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    write_in(&pair.a, "/proc/sys/net/ipv4/ip_forward", "1");
    write_in(&pair.a, "/proc/sys/net/ipv4/icmp_ratelimit", "0");
    pair.a
        .ip_batch("route add unreachable 10.98.1.0/24\nroute add prohibit 10.98.2.0/24\n")
        .unwrap();
    pair.b
        .ip(&["route", "add", "10.98.0.0/16", "via", "10.77.0.1"])
        .unwrap();
    // Unreachable, forbidden, no network, and no neighbour.
    for address in ["10.98.1.1", "10.98.2.1", "10.98.3.1", "10.77.0.99"] {
        compared(&pair.b, "errors", address, 0);
    }
}

#[test]
fn a_router_with_a_small_link_makes_segments_smaller() {
    const FAR: std::net::Ipv4Addr = std::net::Ipv4Addr::new(10, 99, 0, 2);
    let pair = or_skip!(Namespaces::pair());
    let far = or_skip!(Namespace::create("c"));
    let link = "link add vc mtu 600 type veth peer name vd mtu 600 netns";
    let link: Vec<_> = link.split(' ').chain([far.name()]).collect();
    pair.a.ip(&link).unwrap();
    pair.a
        .ip_batch("address add 10.99.0.1/24 dev vc\nlink set vc up\n")
        .unwrap();
    // The peer does not know of the small link.
    far.ip_batch(
        "address add 10.99.0.2/24 dev vd\nlink set vd up\n\
         route add default via 10.99.0.1 advmss 1460\n",
    )
    .unwrap();
    pair.b
        .ip(&["route", "add", "10.99.0.0/24", "via", "10.77.0.1"])
        .unwrap();
    far.wait_until_running("vd", SOON).unwrap();
    write_in(&pair.a, "/proc/sys/net/ipv4/ip_forward", "1");
    write_in(&pair.a, "/proc/sys/net/ipv4/icmp_ratelimit", "0");
    echo_streams(&far, FAR, PORT).unwrap();
    compared(&pair.b, "upload", &FAR.to_string(), 300_000);
    // The next connection knows.
    compared(&pair.b, "upload", &FAR.to_string(), 30_000);
}

/// How many connections of a namespace are in TIME-WAIT.
fn time_waits(namespace: &Namespace) -> usize {
    let text = namespace.enter(|| fs::read_to_string("/proc/thread-self/net/sockstat").unwrap());
    let words: Vec<_> = text.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "tw").unwrap();
    words[at + 1].parse().unwrap()
}

#[test]
fn closed_connections_leave_time_wait_in_the_kernel_and_nothing_else() {
    const CYCLES: usize = 10_000;
    // So many may wait at once. A peer's reset ends the state early (RFC 1337).
    const MOST: usize = 990;
    /// The library's own, some 44: its device's rings, programs and maps.
    const DESCRIPTORS_MAX: usize = 50;
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    let address = Pair::ADDRESS_B.to_string();
    let command = accelerated(&pair.a, "cycles", &address, CYCLES);
    let mut client = Accelerated::start(command).unwrap();
    wait_for(&mut client, "ready");
    let begun = Instant::now();
    // The last ones may be on their way.
    let mut seen = (0, 0, 0);
    while begun.elapsed() < Duration::from_secs(5) {
        let rows = client.reader().tcp_connections().unwrap().len();
        let descriptors = fs::read_dir(format!("/proc/{}/fd", client.process().pid()))
            .unwrap()
            .count();
        seen = (time_waits(&pair.a), rows, descriptors);
        if seen.0 >= MOST && rows == 0 && descriptors < DESCRIPTORS_MAX {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    let (waits, rows, descriptors) = seen;
    assert!(waits >= MOST && rows == 0, "{waits} wait, {rows} rows");
    assert!(descriptors < DESCRIPTORS_MAX, "{descriptors} descriptors");
    let pools = client.reader().pools().unwrap();
    let used: u64 = pools.iter().map(|pool| pool.frames - pool.free).sum();
    let rings = client.reader().rings().unwrap().len();
    assert!(
        used <= 5000,
        "{used} frames are used, {rings} rings are open"
    );
}

/// The internal thread, which has to end a connection, comes late if others compute.
#[test]
fn connections_that_follow_each_other_under_one_number_do_not_disturb_each_other() {
    const CONNECTIONS: usize = 900;
    const CLIENTS: usize = 3;
    let pair = or_skip!(Namespaces::pair());
    let address = Pair::ADDRESS_A.to_string();
    let command = accelerated(&pair.a, "serve", &address, CONNECTIONS);
    let mut server = Accelerated::start(command).unwrap();
    wait_for(&mut server, "listens");
    let is_done = AtomicBool::new(false);
    let exchange = || {
        let mut stream = TcpStream::connect((Pair::ADDRESS_A, PORT)).unwrap();
        stream.set_read_timeout(Some(SOON / 4)).unwrap();
        stream.write_all(&[7; 3000]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut back = Vec::new();
        let read = stream.read_to_end(&mut back).map(|_| back.len());
        if read.is_err() {
            is_done.store(true, Ordering::Relaxed);
        }
        assert_eq!(read.unwrap(), 3000);
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let exchange = &exchange;
        let clients = (0..CLIENTS).map(|_| {
            scope.spawn(|| {
                pair.b
                    .enter(|| (0..CONNECTIONS / CLIENTS).for_each(|_| exchange()));
            })
        });
        let clients: Vec<_> = clients.collect();
        let ends: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_done.store(true, Ordering::Relaxed);
        for end in ends {
            end.unwrap();
        }
    });
    wait_for(&mut server, "ready");
    let log = server.process().stderr();
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn ports_are_used_again_as_on_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    compared(&pair.a, "again", &Pair::ADDRESS_B.to_string(), 0);
}

/// The sum of RFC 1071 over words.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!u16::try_from(sum).unwrap()).to_be_bytes()
}

/// A SYN to the accelerated side from an address that nobody has.
fn syn(macs: ([u8; 6], [u8; 6]), number: u32) -> Vec<u8> {
    let [_, a, b, c] = number.to_be_bytes();
    let (source, destination) = ([10, 100 + a, b, c], Pair::ADDRESS_A.octets());
    let mut ip = vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0];
    ip.extend(source.iter().chain(&destination));
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = vec![0x30, 0x39];
    tcp.extend(PORT.to_be_bytes());
    tcp.extend([1, 2, 3, 4, 0, 0, 0, 0, 0x50, 2, 0x20, 0, 0, 0, 0, 0]);
    let sum = checksum(&[&source, &destination, &[0, 6, 0, 20], &tcp]);
    tcp[16..18].copy_from_slice(&sum);
    [&macs.1[..], &macs.0, &[8, 0], &ip, &tcp].concat()
}

fn resident_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.trim().parse().unwrap()
}

#[test]
fn a_flood_of_syns_takes_little_memory_and_keeps_nobody_out() {
    or_skip!(testkit::needs_xdp("forty thousand packets a second"));
    const SYNS: u32 = 200_000;
    let pair = or_skip!(Namespaces::pair());
    let address = Pair::ADDRESS_A.to_string();
    let mut server = Accelerated::start(accelerated(&pair.a, "listen", &address, 3)).unwrap();
    wait_for(&mut server, "listens");
    let connect = || {
        pair.b
            .enter(|| TcpStream::connect_timeout(&(Pair::ADDRESS_A, PORT).into(), SOON / 6))
            .unwrap()
    };
    let mut before = connect();
    let link = RawLink::open(&pair.b, "vb").unwrap();
    let macs = (link.mac(), RawLink::open(&pair.a, "va").unwrap().mac());
    // The queue is full of these.
    (0..1000).for_each(|number| link.send(&syn(macs, number)).unwrap());
    let kib = resident_kib(server.process().pid());
    let flood = thread::spawn(move || {
        let begun = Instant::now();
        (1000..SYNS).for_each(|number| drop(link.send(&syn(macs, number))));
        begun.elapsed()
    });
    let mut during = connect();
    let begun = Instant::now();
    during.write_all(b"hello").unwrap();
    before.write_all(b"hello").unwrap();
    let took = flood.join().unwrap();
    let mut after = connect();
    after.write_all(b"hello").unwrap();
    wait_for(&mut server, "ready");
    eprintln!("{SYNS} SYNs in {took:?}, served in {:?}", begun.elapsed());
    let more = resident_kib(server.process().pid()).saturating_sub(kib);
    assert!(more < 8 * 1024, "{more} KiB");
    let reader = server.reader();
    let packets: u64 = reader.rings().unwrap().iter().map(|it| it.rx_packets).sum();
    assert!(packets > u64::from(SYNS) / 2, "{packets} packets");
    let rows = reader.tcp_connections().unwrap();
    assert_eq!(rows.len(), 3);
}

/// `TCP_INFO` of a kernel's socket.
fn info(stream: &TcpStream) -> libc::tcp_info {
    // SAFETY: zeros are a value of it.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut len = libc::socklen_t::try_from(size_of_val(&info)).unwrap();
    let (at, room) = ((&raw mut info).cast(), &raw mut len);
    // SAFETY: the kernel writes at most `len` bytes to `info`.
    let got = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            at,
            room,
        )
    };
    assert_eq!(got, 0);
    info
}

/// How long single octets take to be acknowledged that come when no acknowledgement is quick by
/// itself any more.
fn acknowledged_in(stream: &mut TcpStream) -> Duration {
    /// After a pause as long as a time-out, acknowledgements are quick again.
    const PAUSE: Duration = Duration::from_millis(150);
    let begun = Instant::now();
    let (mut times, mut before) = (Vec::new(), begun);
    while times.len() < 30 {
        let sent = Instant::now();
        stream.write_all(b"x").unwrap();
        while info(stream).tcpi_unacked > 0 {
            assert!(begun.elapsed() < SOON);
            thread::sleep(Duration::from_millis(1));
        }
        times.push(sent.elapsed());
        if before.elapsed() > PAUSE {
            times.clear();
        }
        before = Instant::now();
    }
    let mut last: Vec<_> = times.into_iter().skip(21).collect();
    last.sort();
    last[4]
}

#[test]
fn parameters_decide_what_peers_see() {
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    for (variable, mss, has_timestamps, is_quick) in [
        ("VMA_MSS=0", 1448, true, false),
        ("VMA_MSS=600", 588, true, false),
        ("VMA_MTU=1000", 948, true, false),
        ("VMA_TCP_TIMESTAMP_OPTION=0", 1460, false, false),
        ("VMA_TCP_TIMESTAMP_OPTION=2", 1448, true, false),
        ("VMA_TCP_QUICKACK=1", 1448, true, true),
    ] {
        let mut command = accelerated(&pair.a, "hold", &Pair::ADDRESS_B.to_string(), 1);
        let (name, value) = variable.split_once('=').unwrap();
        command.env(name, value);
        let mut client = Accelerated::start(command).unwrap();
        let mut peer = accepted(&listener, 1).remove(0);
        wait_for(&mut client, "ready");
        let seen = info(&peer);
        let timestamps = seen.tcpi_options & 1 != 0;
        assert_eq!(
            (seen.tcpi_snd_mss, timestamps),
            (mss, has_timestamps),
            "{variable}"
        );
        let time = acknowledged_in(&mut peer);
        assert_eq!(
            time < Duration::from_millis(30),
            is_quick,
            "{variable}: {time:?}"
        );
    }
}

#[test]
fn parameters_set_options_and_the_rate_of_connections() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    for value in ["0", "1"] {
        let mut command = accelerated(&pair.a, "options", &Pair::ADDRESS_B.to_string(), 0);
        command.env("VMA_TCP_NODELAY", value);
        assert_eq!(finished(command).0, format!("TCP_NODELAY {value}\n"));
    }
    // Of two SYNs at once, one is answered, and the other again after a second.
    let mut command = accelerated(&pair.a, "listen", &Pair::ADDRESS_A.to_string(), 3);
    command.env("VMA_TCP_MAX_SYN_RATE", "1");
    let mut server = Accelerated::start(command).unwrap();
    wait_for(&mut server, "listens");
    let begun = Instant::now();
    for _ in 0..3 {
        let mut stream = pair
            .b
            .enter(|| TcpStream::connect((Pair::ADDRESS_A, PORT)))
            .unwrap();
        stream.write_all(b"hello").unwrap();
    }
    wait_for(&mut server, "ready");
    assert!(begun.elapsed() > Duration::from_millis(900));
}
