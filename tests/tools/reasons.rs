//! Every reason for which a socket of a preloaded program stays with the kernel: provoked, and read
//! back from the statistics as an operator sees it. That rules have theirs is in `rules.rs`, that a
//! held interface has its own in `takeover.rs`.

use std::collections::HashMap;
use std::path::Path;

use stats::SocketSnapshot;
use testkit::{Accelerated, Namespaces, Pair, SOON, eventually, or_skip, preloaded};

/// Says `name fd` for each socket, and keeps them until its standard input ends.
const SCRIPT: &str = r"
import array, os, select, socket, struct, sys

address, keep = sys.argv[1], []

def udp(name, *local):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    keep.append(s)
    print(name, s.fileno())
    if local:
        s.bind(local)
    return s

udp('offloaded', address, 7001)
udp('unbound')
udp('loopback', '127.0.0.1', 7002)
udp('option', address, 7003).setsockopt(socket.SOL_SOCKET, 42, -1)
udp('cork', address, 7004).setsockopt(socket.IPPROTO_UDP, 1, 1)
udp('unknown_option', address, 7005).setsockopt(socket.SOL_SOCKET, 70, struct.pack('QQ', 0, 0))
s = udp('reuse_port')
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind((address, 7006))
udp('group', '239.1.2.3', 7007)
udp('broadcast', '255.255.255.255', 7008)
group = socket.inet_aton('239.1.2.4') + socket.inet_aton(address)
member = udp('member', address, 7009)
member.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
former = udp('former_member', address, 7010)
former.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
former.setsockopt(socket.IPPROTO_IP, socket.IP_DROP_MEMBERSHIP, group)
shut = udp('shut_down', address, 7011)
shut.connect((sys.argv[2], 9))
shut.shutdown(socket.SHUT_WR)
parts = udp('message', address, 7012)
parts.sendto(b'a', 0x8000, (sys.argv[2], 9))
parts.sendto(b'b', (sys.argv[2], 9))
for name in 'shared_port', 'shared_port_too':
    s = udp(name)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((address, 7013))
nested = udp('nested', address, 7014)
inner, outer = select.epoll(), select.epoll()
inner.register(nested, select.EPOLLIN)
outer.register(inner, select.EPOLLIN)
ends = socket.socketpair()
socket.send_fds(ends[0], [b'x'], [udp('passed', address, 7015).fileno()])
SIX = socket.IPPROTO_IPV6
def six(name, kind, *options, to=None, at=None):
    s = socket.socket(socket.AF_INET6, kind)
    keep.append(s)
    print(name, s.fileno())
    for option in (socket.IPV6_V6ONLY, 0), *options:
        s.setsockopt(SIX, *option)
    if at:
        s.bind(at)
    if to:
        s.connect_ex(to)
    return s
def six_sockets():
    ONLY = socket.IPV6_V6ONLY, 1
    # Hops, class, path MTU, loop, hop limit.
    HARMLESS = (16, 9), (67, 8), (23, 0), (19, 0), (51, 1)
    six('six_any', socket.SOCK_DGRAM, at=('::', 7020))
    six('six_mapped', socket.SOCK_DGRAM, at=('::ffff:' + address, 7021))
    six('six_options', socket.SOCK_DGRAM, *HARMLESS, at=('::', 7022))
    six('six_errors', socket.SOCK_DGRAM, (25, 1), at=('::', 7029))
    six('six_flow_label', socket.SOCK_DGRAM, (33, 1), at=('::', 7030))
    six('six_packet_information', socket.SOCK_DGRAM, (49, 1), at=('::', 7023))
    six('six_only', socket.SOCK_DGRAM, ONLY, at=('::', 7024))
    six('six_address', socket.SOCK_DGRAM, at=('fd77::2', 7025))
    six('six_peer', socket.SOCK_DGRAM, at=('::', 7026), to=('fd77::1', 9))
    six('six_unbound', socket.SOCK_STREAM)
    six('six_listener', socket.SOCK_STREAM, *HARMLESS, (49, 1), at=('::', 7027)).listen()
    six('six_only_listener', socket.SOCK_STREAM, ONLY, at=('::', 7028)).listen()
    six('six_near', socket.SOCK_DGRAM, at=('fe80::2', 7031, 0, 23))
    six('six_near_peer', socket.SOCK_DGRAM, to=('fe80::1', 9, 0, 23))
    six('six_near_listener', socket.SOCK_STREAM, at=('fe80::2', 7032, 0, 23)).listen()
    near_server = six('six_near_server', socket.SOCK_STREAM, at=('fe80::2', 7034, 0, 23))
    near_server.listen()
    six('six_near_own', socket.SOCK_STREAM, to=('fe80::2', 7034, 0, 23))
    six('six_group_stream', socket.SOCK_STREAM, to=('ff0e::1', 9))
    six('six_group', socket.SOCK_DGRAM, at=('ff15::1', 7033))
if len(sys.argv) > 3:
    six_sockets()
s = udp('closed', address, 7016)
s.setsockopt(socket.SOL_SOCKET, 42, -1)
s.sendto(b'x', (sys.argv[2], 9))
s.close()
udp('closed_unused').close()
print('ready', flush=True)
sys.stdin.read()
";

struct Program {
    program: Accelerated,
    fds: HashMap<String, i32>,
}

fn start(pair: &Pair, environment: &[(&str, &str)]) -> Program {
    start_with(pair, environment, &[])
}

fn start_with(pair: &Pair, environment: &[(&str, &str)], further: &[&str]) -> Program {
    let mut command = preloaded(&pair.b, Path::new("python3")).unwrap();
    command
        .args(["-c", SCRIPT, &Pair::ADDRESS_B.to_string()])
        .arg(Pair::ADDRESS_A.to_string())
        .args(further)
        .envs(environment.iter().copied());
    let mut program = Accelerated::start(command).unwrap();
    let ready = eventually(SOON, || program.process().stdout().contains("ready"));
    assert!(ready, "{}", program.process().stderr());
    let output = program.process().stdout();
    let fds = output
        .lines()
        .filter_map(|line| {
            let (name, fd) = line.split_once(' ')?;
            Some((name.to_owned(), fd.parse().ok()?))
        })
        .collect();
    Program { program, fds }
}

impl Program {
    fn text(&self, code: u32) -> String {
        let reasons = self.program.reader().reasons().unwrap();
        let named = reasons.into_iter().find(|reason| reason.code == code);
        named.unwrap().name
    }

    fn socket(&self, name: &str) -> SocketSnapshot {
        let mut sockets = self.program.sockets().into_iter();
        let found = sockets.find(|socket| socket.fd == self.fds[name]);
        found.unwrap_or_else(|| panic!("no socket {name}"))
    }

    /// Its reason in words, and what that is about.
    fn why(&self, name: &str) -> (String, String) {
        let socket = self.socket(name);
        (self.text(socket.reason), socket.detail)
    }
}

#[test]
fn each_socket_says_why_it_is_the_kernels_and_what_that_is_about() {
    let pair = or_skip!(Namespaces::pair());
    let program = start(&pair, &[]);
    assert!(program.socket("offloaded").offloaded);
    for (name, reason, detail) in [
        ("offloaded", "offloaded", ""),
        ("unbound", "neither bound nor connected yet", ""),
        ("loopback", "bound to a loopback address", ""),
        ("option", "a socket option needs the kernel", "SO_PEEK_OFF"),
        ("cork", "a socket option needs the kernel", "UDP_CORK"),
        ("reuse_port", "offloaded", ""),
        ("group", "multicast goes through the kernel", "239.1.2.3"),
        (
            "broadcast",
            "broadcast goes through the kernel",
            "255.255.255.255",
        ),
        (
            "member",
            "offloaded",
            "groups through the kernel: 239.1.2.4",
        ),
        ("former_member", "offloaded", ""),
        ("shut_down", "the socket was shut down", ""),
        (
            "message",
            "flags or control data need the kernel",
            "MSG_MORE",
        ),
        (
            "shared_port",
            "the port is shared by several sockets",
            "SO_REUSEADDR",
        ),
        (
            "shared_port_too",
            "the port is shared by several sockets",
            "SO_REUSEADDR",
        ),
        ("nested", "its epoll set is nested in another", ""),
        ("passed", "its descriptor was passed to another process", ""),
    ] {
        let expected = (reason.to_owned(), detail.to_owned());
        assert_eq!(program.why(name), expected, "{name}");
    }
}

#[test]
fn a_socket_over_ipv6_says_why_it_is_the_kernels() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let program = start_with(&pair, &[], &["ipv6"]);
    for (name, reason, detail) in [
        ("six_any", "offloaded", ""),
        ("six_mapped", "offloaded", ""),
        ("six_options", "offloaded", ""),
        ("six_errors", "offloaded", ""),
        (
            "six_flow_label",
            "a socket option needs the kernel",
            "IPV6_FLOWINFO_SEND",
        ),
        ("six_packet_information", "offloaded", ""),
        ("six_only", "offloaded", ""),
        ("six_address", "offloaded", ""),
        ("six_peer", "offloaded", ""),
        ("six_unbound", "neither bound nor connected yet", ""),
        ("six_listener", "offloaded", ""),
        ("six_only_listener", "offloaded", ""),
        ("six_near", "offloaded", ""),
        ("six_near_peer", "offloaded", ""),
        ("six_near_listener", "offloaded", ""),
        (
            "six_near_own",
            "the route does not leave through an accelerated interface",
            "",
        ),
        ("six_group_stream", "multicast goes through the kernel", ""),
        ("six_group", "multicast goes through the kernel", "ff15::1"),
    ] {
        let expected = (reason.to_owned(), detail.to_owned());
        assert_eq!(program.why(name), expected, "{name}");
    }
    let local = |name| program.socket(name).local.unwrap().to_string();
    assert_eq!(local("six_any"), "[::]:7020");
    assert_eq!(local("six_mapped"), format!("{}:7021", Pair::ADDRESS_B));
    assert_eq!(local("six_address"), "[fd77::2]:7025");
    assert_eq!(local("six_near"), "[fe80::2%23]:7031");
    assert_eq!(local("six_listener"), "[::]:7027");
}

#[test]
fn a_closed_socket_leaves_its_reason_and_its_counters() {
    let pair = or_skip!(Namespaces::pair());
    let program = start(&pair, &[]);
    let closed = program.program.reader().closed_sockets().unwrap();
    let local = |socket: &SocketSnapshot| socket.local.map(|address| address.port());
    assert_eq!(closed.iter().map(local).collect::<Vec<_>>(), [Some(7016)]);
    assert_eq!(
        program.text(closed[0].reason),
        "a socket option needs the kernel"
    );
    assert_eq!(closed[0].detail, "SO_PEEK_OFF");
    assert_eq!((closed[0].tx_os_packets, closed[0].tx_packets), (1, 0));
    assert_eq!(closed[0].fd, program.fds["closed"]);
}

#[test]
fn what_is_said_of_a_whole_process_is_said_of_each_socket() {
    let pair = or_skip!(Namespaces::pair());
    let program = start(&pair, &[("VMA_OFFLOADED_SOCKETS", "0")]);
    assert_eq!(program.why("offloaded").0, "VMA_OFFLOADED_SOCKETS is 0");
    drop(program);
    // What is no Ethernet interface of its own is left alone.
    pair.b
        .ip(&["link", "add", "name", "br0", "type", "bridge"])
        .and_then(|_| pair.b.ip(&["link", "set", "vb", "master", "br0"]))
        .unwrap();
    let program = start(&pair, &[]);
    let expected = (
        "no interface can be accelerated".to_owned(),
        "vb: part of the bridge br0".to_owned(),
    );
    assert_eq!(program.why("offloaded"), expected);
}

/// A ring that no hook has seen made, then sockets.
#[test]
fn sockets_of_a_program_that_uses_io_uring_are_the_kernels() {
    let pair = or_skip!(Namespaces::pair());
    let program = testkit::c_program("io_uring");
    let mut command = preloaded(&pair.b, &program).unwrap();
    command.args(["sockets", &Pair::ADDRESS_B.to_string(), "7040"]);
    command.env("VMA_TRACELEVEL", "2");
    let mut program = Accelerated::start(command).unwrap();
    let ready = eventually(SOON, || program.process().stdout().contains("ready"));
    assert!(ready, "{}", program.process().stderr());
    let sockets = program.sockets();
    let reasons = program.reader().reasons().unwrap();
    let text = |code| {
        reasons
            .iter()
            .find(|it| it.code == code)
            .map(|it| it.name.as_str())
    };
    let said: Vec<_> = sockets.iter().map(|it| text(it.reason)).collect();
    let expected = Some("the program uses io_uring, past the library");
    assert_eq!(said, [expected; 2]);
    let log = program.process().stderr();
    let lines = log.lines().filter(|line| line.contains("io_uring")).count();
    assert_eq!(lines, 1, "{log}");
}
