//! TCP connections past the kernel: the same octets and the same answers as on the kernel, with a
//! peer on the kernel and with one that is preloaded, also when the kernel has the connection from
//! the middle on.

use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use testkit::{
    Accelerated, Namespace, Namespaces, Pair, Running, SOON, Skip, echo_streams, or_skip, preloaded,
};

const PORT: u16 = 7900;
/// Octets that a peer of the server sends.
const LEN: usize = 1_500_000;

fn program() -> PathBuf {
    testkit::c_program("streams")
}

/// With rules of `libvma.conf`.
fn with_library(namespace: &Namespace, rules: &str, name: &str) -> Command {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("streams-{name}-{}.conf", std::process::id()));
    fs::write(&file, rules).unwrap();
    let mut command = preloaded(namespace, &program()).unwrap();
    command
        .env("VMA_CONFIG_FILE", file)
        .env("VMA_TRACELEVEL", "4");
    command
}

fn finished(mut command: Command, case: &str) -> (String, String) {
    let (address, port) = (Pair::ADDRESS_B.to_string(), PORT.to_string());
    command.args([case, &address, &port]);
    let finished = Running::start(command).unwrap().wait(SOON).unwrap();
    assert!(
        finished.status.success(),
        "{case}: {}{}",
        finished.stdout,
        finished.stderr
    );
    (finished.stdout, finished.stderr)
}

/// What makes the C programs' sockets those of `AF_INET6`, with the same IPv4 addresses, or over
/// IPv6; and what does not.
fn families() -> &'static [&'static [(&'static str, &'static str)]] {
    const ALL: &[&[(&str, &str)]] = &[&[], &[("CASE_OVER_IPV6", "1")], OVER_IPV6];
    if has_ipv6() { ALL } else { &ALL[..1] }
}

/// IPv6 on the wire.
const OVER_IPV6: &[(&str, &str)] = &[("CASE_OVER_IPV6", "real")];

fn has_ipv6() -> bool {
    Path::new("/proc/net/if_inet6").exists()
}

/// Two namespaces with addresses of each family that this machine has.
fn pair() -> Result<Pair, Skip> {
    let plain = Namespaces::new();
    if has_ipv6() { plain.ipv6() } else { plain }.create()
}

/// The case on the kernel and with the library, over both families; the log of the latter.
fn compared(pair: &Pair, case: &str) -> String {
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    if has_ipv6() {
        echo_streams(&pair.b, Pair::IPV6_ADDRESS_B, PORT).unwrap();
    }
    let in_family = |mut command: Command, family: &[(&str, &str)]| {
        command.envs(family.iter().copied());
        finished(command, case)
    };
    let logs = families().iter().map(|family| {
        let (expected, _) = in_family(pair.a.command(program()), family);
        let (seen, log) = in_family(with_library(&pair.a, "", case), family);
        assert_eq!(seen, expected, "{log}");
        assert!(log.contains("past the kernel by va"), "{log}");
        log
    });
    let logs: Vec<_> = logs.collect();
    let returns = |log: &String| log.matches("back to the kernel").count();
    assert!(
        logs.iter().all(|log| returns(log) == returns(&logs[0])),
        "{logs:?}"
    );
    logs.concat()
}

#[test]
fn octets_arrive_in_both_directions() {
    let log = compared(&or_skip!(pair()), "plain");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn events_are_those_of_the_kernel() {
    compared(&or_skip!(pair()), "edges");
}

#[test]
fn a_connection_goes_into_sets_and_out_as_the_kernel_has_it() {
    for case in ["sets", "sets_mark", "sets_copy"] {
        compared(&or_skip!(pair()), case);
    }
}

#[test]
fn what_only_the_kernel_does_on_the_way_out_is_done() {
    compared(&or_skip!(pair()), "ways_out");
}

#[test]
fn a_socket_over_ipv6_connects_to_mapped_addresses() {
    let log = compared(&or_skip!(pair()), "six");
    assert!(log.contains("back to the kernel: a socket option"), "{log}");
    assert!(!log.contains("lost"), "{log}");
}

#[test]
fn room_that_is_not_needed_may_be_none() {
    compared(&or_skip!(pair()), "room");
}

#[test]
fn states_are_told_as_the_kernel_tells_them() {
    compared(&or_skip!(pair()), "states");
}

#[test]
fn a_refusal_is_told_as_the_kernel_tells_it() {
    compared(&or_skip!(pair()), "refused");
}

#[test]
fn an_option_gives_the_connection_to_the_kernel_whole() {
    let log = compared(&or_skip!(pair()), "option");
    assert!(log.contains("back to the kernel: a socket option"), "{log}");
}

#[test]
fn options_that_change_nothing_for_packets_leave_the_connection_here() {
    let log = compared(&or_skip!(pair()), "harmless_options");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn a_dummy_send_reaches_nobody() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    let datagrams = || UdpSocket::bind((Pair::ADDRESS_B, PORT));
    let datagrams = pair.b.enter(datagrams).unwrap();
    let (seen, log) = finished(with_library(&pair.a, "", "dummy"), "dummy_sends");
    let einval = libc::EINVAL;
    let expected = format!(
        "stream: 4\nstream: 4\nno buffer: -1 {}\ndatagrams: 4\n\
         the kernel's: 0 {einval}\nthe kernel's: 0 {einval}\n",
        libc::EFAULT
    );
    assert_eq!(seen, expected, "{log}");
    assert!(log.contains("past the kernel by va"), "{log}");
    datagrams.set_nonblocking(true).unwrap();
    let mut received = Vec::new();
    let mut buffer = [0; 64];
    while let Ok(len) = datagrams.recv(&mut buffer) {
        received.push(String::from_utf8_lossy(&buffer[..len]).into_owned());
    }
    assert_eq!(received, ["sent", "sent", "last"]);
}

#[test]
fn parent_and_child_use_a_connection() {
    let log = compared(&or_skip!(pair()), "forked");
    assert!(log.contains("back to the kernel: shared"), "{log}");
}

#[test]
fn a_child_keeps_a_connection_that_its_parent_closes() {
    let log = compared(&or_skip!(pair()), "inherited");
    assert!(log.contains("back to the kernel: shared"), "{log}");
}

#[test]
fn a_descriptor_that_is_closed_by_number_ends_its_connection_at_once() {
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    let peer = thread::spawn(move || {
        let mut waited = Duration::ZERO;
        for stream in listener.incoming().take(8) {
            let mut stream = stream.unwrap();
            let mut octet = [0];
            stream.read_exact(&mut octet).unwrap();
            let begun = Instant::now();
            assert_eq!(stream.read(&mut octet).unwrap(), 0);
            waited += begun.elapsed();
        }
        waited
    });
    let (_, log) = finished(with_library(&pair.a, "", "number"), "closed_by_number");
    assert!(log.contains("past the kernel by va"), "{log}");
    // A look for lost descriptors takes a quarter of a second in the mean.
    let waited = peer.join().unwrap();
    assert!(waited < Duration::from_millis(500), "{waited:?}");
}

#[test]
fn what_has_come_is_known_to_calls_that_receive_nothing() {
    let pair = or_skip!(Namespaces::pair());
    let listener = pair
        .b
        .enter(|| TcpListener::bind((Pair::ADDRESS_B, PORT)))
        .unwrap();
    // Takes what comes first; a connection that is closed with an octet unread is reset.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0; 1000]).unwrap();
            stream.peek(&mut [0]).unwrap();
        }
    });
    // The internal thread takes nothing in: only the calls do.
    let seen = |mut command: Command| {
        command.env("VMA_PROGRESS_ENGINE_INTERVAL", "0");
        finished(command, "known_at_once")
    };
    let (expected, _) = seen(pair.a.command(program()));
    let (seen, log) = seen(with_library(&pair.a, "", "at-once"));
    assert_eq!(seen, expected, "{log}");
    assert!(log.contains("past the kernel by va"), "{log}");
    assert!(!log.contains("back to the kernel"), "{log}");
}

#[test]
fn what_becomes_a_standard_stream_is_the_c_librarys() {
    let log = compared(&or_skip!(pair()), "standard_streams");
    assert!(log.contains("back to the kernel: the C library"), "{log}");
}

#[test]
fn streams_are_the_kernels_by_a_rule_only() {
    let pair = or_skip!(Namespaces::pair());
    echo_streams(&pair.b, Pair::ADDRESS_B, PORT).unwrap();
    for rules in ["", "use os udp_sender *:*\n", "use os tcp_server *:*\n"] {
        let (seen, log) = finished(with_library(&pair.a, rules, "none"), "plain");
        assert_eq!(seen, "all octets\n");
        assert!(log.contains("past the kernel by va"), "{rules:?}: {log}");
    }
    let (seen, log) = finished(
        with_library(&pair.a, "use os tcp_client *:*", "os"),
        "plain",
    );
    assert_eq!(seen, "all octets\n");
    assert!(log.contains("a rule leaves it to the kernel"), "{log}");
    let none = "use os tcp_client *:*\nuse os tcp_server *:*\n";
    let (seen, log) = finished(with_library(&pair.a, none, "none"), "plain");
    assert_eq!((seen.as_str(), log.as_str()), ("all octets\n", ""));
}

/// Sends and checks what comes back.
fn exchange(mut stream: TcpStream) {
    let octets: Vec<u8> = (0..LEN)
        .map(|i| (i * 31 + (i >> 9)).to_le_bytes()[0])
        .collect();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let sent = octets.clone();
    let sender = thread::spawn(move || {
        writer.write_all(&sent).unwrap();
        writer.shutdown(Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    sender.join().unwrap();
    assert!(received == octets, "{} octets", received.len());
}

#[test]
fn a_server_accepts_past_the_kernel() {
    for family in families() {
        serves(&or_skip!(pair()), family);
    }
}

fn serves(pair: &Pair, family: &[(&str, &str)]) {
    let mut command = with_library(&pair.b, "", "server");
    command
        .args(["serve", "0.0.0.0", &PORT.to_string()])
        .envs(family.iter().copied());
    let mut server = Accelerated::start(command).unwrap();
    assert!(
        server.process().wait_for_output("ready", SOON),
        "{}",
        server.process().stderr()
    );
    let (address, loopback) = if family == OVER_IPV6 {
        let loopback = Ipv6Addr::LOCALHOST.into();
        (IpAddr::V6(Pair::IPV6_ADDRESS_B), loopback)
    } else {
        (IpAddr::V4(Pair::ADDRESS_B), IpAddr::V4(Ipv4Addr::LOCALHOST))
    };
    let connect = |namespace: &Namespace, address: IpAddr| {
        namespace
            .enter(|| TcpStream::connect((address, PORT)))
            .unwrap()
    };
    for _ in 0..2 {
        exchange(connect(&pair.a, address));
    }
    let packets = server.received_by_rings();
    assert!(packets > 100, "{packets} packets came past the kernel");
    // By another way, in the order of arrival.
    exchange(connect(&pair.b, loopback));
    // From a peer that is preloaded, too.
    let (_, log) = {
        let mut client = with_library(&pair.a, "", "client");
        client
            .env("VMA_TRACELEVEL", "4")
            .envs(family.iter().copied());
        finished(client, "plain")
    };
    assert!(log.contains("past the kernel by va"), "{log}");
    let finished = server.into_process().wait(SOON).unwrap();
    let expected = format!(
        "ready\n{0}{0}{0}600000 octets, TCP_NODELAY 1\n",
        format_args!("{LEN} octets, TCP_NODELAY 1\n")
    );
    assert_eq!(finished.stdout, expected, "{}", finished.stderr);
}

#[test]
fn a_server_that_ends_may_be_started_again_at_once() {
    let pair = or_skip!(Namespaces::pair());
    for _ in 0..2 {
        let mut command = with_library(&pair.b, "", "again");
        command.args(["serve_once", "0.0.0.0", &PORT.to_string()]);
        let mut server = Running::start(command).unwrap();
        assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
        let mut stream = pair
            .a
            .enter(|| TcpStream::connect((Pair::ADDRESS_B, PORT)))
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        drop(stream);
        let finished = server.wait(SOON).unwrap();
        assert_eq!(text, "bye");
        assert_eq!(
            finished.stdout, "ready\nSO_REUSEADDR 1\n",
            "{}",
            finished.stderr
        );
    }
}

#[test]
fn a_listener_waits_for_data_as_the_program_asks() {
    let pair = or_skip!(Namespaces::pair());
    for case in ["serve_deferred", "serve_deferred_late"] {
        let mut command = with_library(&pair.b, "", case);
        command.args([case, "0.0.0.0", &PORT.to_string()]);
        let mut server = Running::start(command).unwrap();
        assert!(server.wait_for_output("ready", SOON), "{}", server.stderr());
        let mut stream = pair
            .a
            .enter(|| TcpStream::connect((Pair::ADDRESS_B, PORT)))
            .unwrap();
        thread::sleep(Duration::from_millis(200));
        stream.write_all(b"hello").unwrap();
        let finished = server.wait(SOON).unwrap();
        let log = &finished.stderr;
        assert_eq!(finished.stdout, "ready\nat once: 5\n", "{log}");
        assert!(
            !log.contains("back to the kernel: a socket option"),
            "{log}"
        );
    }
}
