//! Receiving from groups.

use std::path::Path;

use testkit::{Accelerated, Namespaces, Pair, Running, SOON, or_skip, preloaded};

use crate::script::Step::{Do, Other, Peer, Send};
use crate::script::{VARIANTS, compare, on_kernel, with_library};

#[test]
fn a_member_receives_until_it_leaves() {
    let pair = or_skip!(Namespaces::pair());
    for open in [
        "s = udp(ANY, 7000)",
        "s = udp(ANY, 7000, False)",
        "s = udp('239.1.1.1', 7000)",
        "s = udp('239.1.1.1', 7000, False)",
        "s = sharing('239.1.1.1', 7000)",
    ] {
        let steps = [
            Do(open),
            Do("join(s, '239.1.1.1')"),
            Send("239.1.1.1:7000", "one"),
            Send("239.1.1.1:7000", "two"),
            Send("239.1.1.1:7001", "wrong port"),
            Send("239.1.1.2:7000", "other group"),
            Do("take(s)"),
            Do("join(s, '239.1.1.1')"),
            Do("leave(s, '239.1.1.3')"),
            Send("239.1.1.1:7000", "three"),
            Do("take(s)"),
            Do("leave(s, '239.1.1.1')"),
            Send("239.1.1.1:7000", "four"),
            Do("take(s)"),
        ];
        compare(&pair, &steps, 3, 0);
    }
}

#[test]
fn the_interface_is_named_in_every_way() {
    let pair = or_skip!(Namespaces::pair());
    let route = ["route", "add", "239.0.0.0/8", "dev", "vb"];
    pair.b.ip(&route).unwrap();
    for join in [
        "join(s, '239.1.1.1', 23)",
        "join(s, '239.1.1.1', ANY)",
        "option(s, socket.IP_ADD_MEMBERSHIP, mreq('239.1.1.1', 23)[:8])",
    ] {
        let steps = [
            Do("s = udp(ANY, 7010)"),
            Do(join),
            Send("239.1.1.1:7010", "one"),
            Do("take(s)"),
            Do("s.close()"),
            Do("s = udp(ANY, 7010)"),
            Do(join),
            Send("239.1.1.1:7010", "two"),
            Do("take(s)"),
        ];
        compare(&pair, &steps, 1, 0);
    }
    // Errors are the kernel's.
    let steps = [
        Do("s = udp(ANY, 7011)"),
        Do("join(s, '10.1.1.1')"),
        Do("join(s, '239.1.1.1', 77)"),
        Do("join(s, '239.1.1.1', '10.99.0.1')"),
        Send("10.77.0.2:7011", "unicast"),
        Do("take(s)"),
    ];
    compare(&pair, &steps, 1, 0);
}

#[test]
#[ignore = "takes a quarter of a minute"]
fn several_groups_and_several_sockets() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Do("s = udp(ANY, 7020)"),
        Do("join(s, '239.1.1.1'); join(s, '239.1.1.2')"),
        Send("239.1.1.1:7020", "a"),
        Send("239.1.1.2:7020", "b"),
        Send("239.1.1.3:7020", "c"),
        Send("10.77.0.2:7020", "unicast"),
        Do("take(s)"),
        Do("leave(s, '239.1.1.1')"),
        Send("239.1.1.1:7020", "d"),
        Send("239.1.1.2:7020", "e"),
        Do("take(s)"),
    ];
    compare(&pair, &steps, 4, 0);
    // Each of one group gets the datagram; the unicast one is the kernel's to give, and no group's.
    for (open, past, through) in [
        (
            "a, b = udp('239.1.1.1', 7021), udp('239.1.1.1', 7021)",
            6,
            0,
        ),
        ("a, b = udp(ANY, 7021), udp('239.1.1.1', 7021)", 7, 0),
    ] {
        let steps = [
            Do(open),
            Do("join(a, '239.1.1.1'); join(b, '239.1.1.1')"),
            Send("239.1.1.1:7021", "one"),
            Send("239.1.1.1:7021", "two"),
            Send("10.77.0.2:7021", "unicast"),
            Do("take(a); take(b)"),
            Do("b.close()"),
            Send("239.1.1.1:7021", "three"),
            Do("take(a)"),
            Do("b = udp('239.1.1.1', 7021)"),
            Send("239.1.1.1:7021", "four"),
            Do("take(a); take(b)"),
        ];
        // What the closed socket had is not counted any more.
        compare(&pair, &steps, past - 1, through);
    }
    let steps = [
        Do("a = udp(ANY, 7022); join(a, '239.1.1.1')"),
        Do("b = udp(ANY, 7022); join(b, '239.1.1.1')"),
        Send("239.1.1.1:7022", "one"),
        Send("10.77.0.2:7022", "unicast"),
        Do("take(a); take(b)"),
    ];
    compare(&pair, &steps, 2, 1);
}

#[test]
fn what_others_joined_is_received_unless_the_socket_says_no() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Do("a = udp('239.1.1.1', 7030)"),
        Do("b, c = udp('239.1.1.1', 7030), udp('239.1.1.1', 7030)"),
        Do("option(c, 49, 0)"),
        Do("join(a, '239.1.1.1')"),
        Send("239.1.1.1:7030", "one"),
        Do("take(a); take(b); take(c)"),
        Do("option(c, 49, 1); option(b, 49, 0)"),
        Send("239.1.1.1:7030", "two"),
        Do("take(a); take(b); take(c)"),
        Do("join(b, '239.1.1.1'); leave(a, '239.1.1.1')"),
        Send("239.1.1.1:7030", "three"),
        Do("take(a); take(b); take(c)"),
    ];
    // Who has waited in the kernel for what did not come stays there, and those who share its group
    // with it.
    compare(&pair, &steps, 2, 5);
}

#[test]
fn a_member_over_ipv6_has_its_copy() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let steps = [
        Do("s = udp('239.1.1.1', 7041); join(s, '239.1.1.1')"),
        Send("239.1.1.1:7041", "one"),
        Do("take(s)"),
        Do("six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); six.setsockopt(*REUSE)"),
        Do("six.bind(('::', 7041)); join(six, '239.1.1.1'); time.sleep(1.5)"),
        Send("239.1.1.1:7041", "two"),
        Do("take(s); print(six.recvfrom(100)[0])"),
    ];
    compare(&pair, &steps, 3, 0);
}

#[test]
fn datagrams_keep_their_order_when_the_way_changes() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Do("other = udp(ANY, 7045); option(other, 19, 1)"),
        Do("s = udp('239.1.1.1', 7045); join(s, '239.1.1.1')"),
        Send("239.1.1.1:7045", "one"),
        Send("239.1.1.1:7045", "two"),
        Do("other.close(); join(s, '239.1.1.2')"),
        Send("239.1.1.1:7045", "three"),
        Do("take(s)"),
        // It does not show the interface in its address.
        Do("c = udp('239.1.1.1', 7045); option(c, 49, 0)"),
        Send("239.1.1.1:7045", "four"),
        Do(
            "option(c, 42, struct.pack('I4xHH4s120x', 23, socket.AF_INET, 0, socket.inet_aton('239.1.1.1')))",
        ),
        Send("239.1.1.1:7045", "five"),
        Do("take(s); take(c)"),
    ];
    compare(&pair, &steps, 4, 2);
}

#[test]
fn another_process_has_its_copy() {
    let pair = or_skip!(Namespaces::pair());
    let other = pair
        .b
        .enter(|| {
            let script = "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('0.0.0.0', 7050))
s.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton('239.1.1.1') + socket.inet_aton(sys.argv[1]))
print('ready', flush=True)
while True:
    print(s.recv(100).decode(), flush=True)
";
            let mut command = pair.b.command("python3");
            command.args(["-c", script, &Pair::ADDRESS_B.to_string()]);
            Running::start(command)
        })
        .unwrap();
    let mut other = other;
    assert!(other.wait_for_output("ready", SOON), "{}", other.stderr());
    let steps = [
        Do("s = udp('239.1.1.1', 7050); join(s, '239.1.1.1')"),
        Send("239.1.1.1:7050", "one"),
        Do("take(s)"),
    ];
    compare(&pair, &steps, 0, 1);
    assert_eq!(other.stdout(), "ready\none\none\none\n");
}

#[test]
fn who_comes_later_from_another_process_soon_has_its_copies() {
    let pair = or_skip!(Namespaces::pair());
    let groups = "*[f'239.1.2.{i}' for i in range(5)]";
    let joins = format!("s = udp(ANY, 7055); [join(s, group) for group in [{groups}]]");
    let feeds = format!("feed(7055, {groups})");
    let waits = format!("time.sleep(0.7); times = [wait_for(group, 7055) for group in [{groups}]]");
    let steps = [
        Do(joins.leak()),
        Peer(feeds.leak()),
        Other(waits.leak()),
        // Looking every half second it would take a quarter of one each time.
        Other("print(sum(times) < 0.6 or times)"),
    ];
    let expected = on_kernel(&pair, &steps);
    let (seen, counts, log) = with_library(&pair, &[], &steps);
    assert_eq!(seen, expected, "{log}");
    assert_eq!(counts.sent, (0, 0), "{log}");
}

#[test]
fn own_datagrams_are_looped_back() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Do("s = udp(ANY, 7060); join(s, '239.1.1.1')"),
        Do("t = udp(ADDRESS, 7061)"),
        Do("option(t, socket.IP_MULTICAST_IF, socket.inet_aton(ADDRESS))"),
        Do("t.sendto(b'own', ('239.1.1.1', 7060))"),
        Do("take(s)"),
        Send("239.1.1.1:7060", "other's"),
        Do("take(s)"),
        Do("option(t, socket.IP_MULTICAST_LOOP, 0)"),
        Do("t.sendto(b'not looped', ('239.1.1.1', 7060))"),
        Do("take(s)"),
        // A socket that is bound to the group sends from the interface's address.
        Do("g = udp('239.1.1.1', 7062); join(g, '239.1.1.1')"),
        Do("g.sendto(b'answer', ('10.77.0.2', 7061)); g.sendto(b'out', ('10.77.0.1', 9000))"),
        Do("take(t)"),
    ];
    compare(&pair, &steps, 1, 2);
}

#[test]
fn epoll_tells_of_groups() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Do("a = udp('239.1.1.1', 7070); join(a, '239.1.1.1')"),
        Do("b = udp(ANY, 7071); join(b, '239.1.1.2')"),
        Do("e = select.epoll(); e.register(a, 1); e.register(b, 1)"),
        Send("239.1.1.2:7071", "one"),
        Do("print([it[0] == b.fileno() for it in e.poll(5)]); take(b)"),
        Send("239.1.1.1:7070", "two"),
        Do("print([it[0] == a.fileno() for it in e.poll(5)]); take(a)"),
        Send("239.1.1.1:7071", "for those who take all"),
        Do("print(len(e.poll(0.3))); take(b)"),
    ];
    let expected = on_kernel(&pair, &steps);
    let (seen, counts, log) = with_library(&pair, &[], &steps);
    assert_eq!(seen, expected, "{log}");
    assert_eq!(counts.received.0, 2, "{log}");
}

#[test]
fn a_child_receives_what_its_parent_joined() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Do("s = udp('239.1.1.1', 7080); join(s, '239.1.1.1')"),
        Send("239.1.1.1:7080", "one"),
        Do("take(s)"),
        Do("r, w = os.pipe(); child = os.fork() or in_child(s, w); os.read(r, 1); time.sleep(0.3)"),
        Send("239.1.1.1:7080", "two"),
        Do("os.waitpid(child, 0)"),
        Do("leave(s, '239.1.1.1')"),
        Send("239.1.1.1:7080", "three"),
        Do("take(s)"),
    ];
    let expected = on_kernel(&pair, &steps);
    for (name, environment) in VARIANTS {
        let (seen, counts, log) = with_library(&pair, environment, &steps);
        assert_eq!(seen, expected, "{name}: {log}");
        assert_eq!(counts.received.0, 1, "{name}: {log}");
    }
}

#[test]
fn a_thousand_groups() {
    let pair = or_skip!(Namespaces::pair());
    let raise = "/proc/sys/net/ipv4/igmp_max_memberships";
    pair.b.enter(|| std::fs::write(raise, "2000")).unwrap();
    let raise = "/proc/sys/net/core/optmem_max";
    let _ = pair.b.enter(|| std::fs::write(raise, "1000000"));
    let steps = [
        Do("sockets = [udp(ANY, 7090 + i) for i in range(5)]"),
        Do(
            "[sockets[i % 5].setsockopt(IP, socket.IP_ADD_MEMBERSHIP, mreq(f'239.2.{i >> 7}.{i & 127}', ADDRESS)) for i in range(1000)]",
        ),
        Send("239.2.0.0:7090", "first"),
        Send("239.2.7.103:7094", "last"),
        Send("239.2.7.104:7090", "beyond"),
        Do("take(sockets[0]); take(sockets[4])"),
    ];
    compare(&pair, &steps, 2, 0);
}

#[test]
fn sockperf_answers_past_the_kernel() {
    let pair = or_skip!(Namespaces::pair());
    let Ok(true) = std::fs::exists("/usr/bin/sockperf") else {
        return testkit::skip("sockperf is not installed");
    };
    let group = ["-i", "239.1.1.1", "-p", "7100"];
    let interfaces = |address: &str| {
        let options = ["--mc-rx-if", "--mc-tx-if"];
        options
            .map(|it| [it.to_owned(), address.to_owned()])
            .concat()
    };
    let mut command = preloaded(&pair.b, Path::new("sockperf")).unwrap();
    command.arg("sr").args(group).args(interfaces("10.77.0.2"));
    let mut server = Accelerated::start(command).unwrap();
    let waits = server.process().wait_for_output("to block on", SOON);
    assert!(waits, "{}", server.process().stderr());
    let mut command = pair.a.command("sockperf");
    command
        .arg("pp")
        .args(group)
        .args(["-t", "2"])
        .args(interfaces("10.77.0.1"));
    let client = Running::start(command).unwrap().wait(SOON).unwrap();
    assert!(client.stdout.contains("avg-latency"), "{}", client.stdout);
    let sockets = server.sockets();
    let past: u64 = sockets.iter().map(|it| it.rx_packets).sum();
    let through: u64 = sockets.iter().map(|it| it.rx_os_packets).sum();
    // The server hears its own answers, too, if they are looped back, which they are not by
    // default.
    assert!(
        past > 1000 && through < 10,
        "{past} past, {through} through"
    );
}
