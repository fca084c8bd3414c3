//! Groups of IPv6, and link-local addresses, which the datagrams to the narrow ones of them come
//! from.

use testkit::{Namespaces, Pair, Skip, or_skip};

use crate::script::Step::{Do, Other, Peer, Send, SendFrom};
use crate::script::{Counts, after_each, compare, compare_both};
use crate::sending::READS_FILES;

const ONE: &str = "fd77::1";
const NINE: &str = "fd77::9";

pub(crate) fn pair() -> Result<Pair, Skip> {
    Namespaces::new().ipv6().create()
}

fn pair_with_two_sources() -> Result<Pair, Skip> {
    let pair = pair()?;
    pair.a
        .ip(&["address", "add", "fd77::9/64", "dev", "va", "nodad"])
        .unwrap();
    Ok(pair)
}

fn counts(received: (u64, u64), sent: (u64, u64)) -> Counts {
    Counts { received, sent }
}

#[test]
fn a_member_receives_until_it_leaves() {
    receive_until_leaving(&[("s = udp6('ff02::77', 7000, scope=VB)", "ff02::77")]);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn a_member_is_bound_in_any_way() {
    receive_until_leaving(&[
        ("s = udp6('::', 7000, reuse=False)", "ff05::1:1"),
        ("s = udp6('::', 7000, only=1)", "ff0e::1:1"),
        ("s = udp6('ff05::1:1', 7000)", "ff05::1:1"),
    ]);
}

/// With each of some ways to open a socket, and the group that it joins.
fn receive_until_leaving(ways: &[(&'static str, &str)]) {
    let pair = or_skip!(pair());
    for &(open, group) in ways {
        let doing = |what: &str| Do(what.replace("GROUP", group).leak());
        let to = |port: u16| &*format!("[{group}]:{port}").leak();
        let steps = [
            Do(open),
            doing("join6(s, 'GROUP')"),
            Send(to(7000), "one"),
            SendFrom("fe80::1%12", to(7000), "from near"),
            Send(to(7001), "wrong port"),
            Send("[ff05::1:2]:7000", "other group"),
            Do("take(s)"),
            doing("join6(s, 'GROUP')"),
            Do("leave6(s, 'ff05::1:3')"),
            Send(to(7000), "three"),
            Do("take(s)"),
            doing("leave6(s, 'GROUP')"),
            Send(to(7000), "four"),
            Do("take(s)"),
        ];
        compare(&pair, &steps, 3, 0);
    }
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn the_interface_is_named_or_found() {
    let pair = or_skip!(pair());
    for join in [
        "join6(s, 'ff05::1', 0)",
        "option6(s, 42, of_interface(0, 'ff05::1'))",
        "option6(s, 42, of_interface(VB, 'ff05::1'))",
    ] {
        let steps = [
            Do("s = udp6('::', 7010)"),
            Do(join),
            Send("[ff05::1]:7010", "one"),
            Do("take(s)"),
        ];
        compare(&pair, &steps, 1, 0);
    }
    // Errors are the kernel's.
    let steps = [
        Do("s = udp6('::', 7011)"),
        Do("join6(s, 'fd77::1'); join6(s, 'ff05::1', 77)"),
        Do("option6(s, 42, of_interface(VB, '239.1.1.1'))"),
        Do("option(s, 42, of_interface(VB, 'ff05::1'))"),
        Send("[fd77::2]:7011", "unicast"),
        Do("take(s)"),
    ];
    compare(&pair, &steps, 1, 0);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn each_receiver_has_its_copy() {
    let pair = or_skip!(pair());
    let steps = [
        Do("a, b, c = udp6('::', 7020), udp6('ff05::1', 7020), udp6('ff05::1', 7020)"),
        // IPV6_MULTICAST_ALL
        Do("option6(c, 29, 0); join6(a, 'ff05::1'); join6(a, 'ff05::2'); join(a, '239.1.1.1')"),
        Send("[ff05::1]:7020", "to two"),
        Send("[ff05::2]:7020", "to one"),
        Send("239.1.1.1:7020", "the other version"),
        Do("take(a); take(b); take(c)"),
        Do("option6(c, 29, 1)"),
        Send("[ff05::1]:7020", "to three"),
        Do("take(a); take(b); take(c)"),
        // IP_MULTICAST_ALL is off by default for sockets of AF_INET6.
        Do("four = udp('239.1.1.1', 7020); join(four, '239.1.1.1'); leave(a, '239.1.1.1')"),
        Send("239.1.1.1:7020", "to one family"),
        Do("take(a); take(four); option(a, 49, 1)"),
        Send("239.1.1.1:7020", "to both families"),
        Do("take(a); take(four); leave6(a, 'ff05::1')"),
        Send("[ff05::1]:7020", "to none"),
        Do("take(a); take(b)"),
    ];
    compare(&pair, &steps, 7, 3);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn each_option_changes_whose_datagrams_come() {
    let pair = or_skip!(pair_with_two_sources());
    let statements = [
        // MCAST_JOIN_GROUP, MCAST_BLOCK_SOURCE, MCAST_UNBLOCK_SOURCE, MCAST_LEAVE_GROUP
        "s = udp6('::', 7302); option6(s, 42, of_interface(VB, 'ff05::1'))",
        "option6(s, 43, of_interface(VB, 'ff05::1', 'fd77::1'))",
        "option6(s, 44, of_interface(VB, 'ff05::1', 'fd77::1'))",
        "option6(s, 45, of_interface(VB, 'ff05::1'))",
        // MCAST_JOIN_SOURCE_GROUP, MCAST_LEAVE_SOURCE_GROUP, MCAST_MSFILTER
        "option6(s, 46, of_interface(VB, 'ff05::1', 'fd77::9'))",
        "option6(s, 46, of_interface(VB, 'ff05::1', 'fd77::1'))",
        "option6(s, 47, of_interface(VB, 'ff05::1', 'fd77::1'))",
        "option6(s, 48, filter_of(VB, 'ff05::1', 0, 'fd77::9', 'fd77::8'))",
        "option6(s, 48, filter_of(VB, 'ff05::1', 1, 'fd77::9', 'fd77::1'))",
        "option6(s, 48, filter_of(VB, 'ff05::1', 7))",
    ];
    let show = "take(s); show_filter(s, VB, 'ff05::1')";
    let steps = after_each(&statements, [ONE, NINE], "[ff05::1]:7302", show);
    compare(&pair, &steps, 14, 0);
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn another_process_has_its_copy() {
    let pair = or_skip!(pair());
    let steps = [
        Other("o = udp6('::', 7050); join6(o, 'ff05::1')"),
        Do("s = udp6('ff05::1', 7050); join6(s, 'ff05::1')"),
        Send("[ff05::1]:7050", "one"),
        Do("take(s)"),
        Other("take(o); o.close()"),
    ];
    compare(&pair, &steps, 0, 1);
}

#[test]
fn interface_address_and_headers_are_the_kernels() {
    let pair = or_skip!(pair());
    let steps = [
        Peer("p = listener6(7400, 'ff05::1', 'ff02::77', 'ff0e::5')"),
        Do("s = udp6('::', 7401); send(s, 'routed', 'ff05::1', 7400)"),
        Do("send(s, 'with scope', 'ff02::77', 7400, 0, VB); send(s, 'without', 'ff02::77', 7400)"),
        Do("send(s, 'no such scope', 'ff02::77', 7400, 0, 77); send(s, 'wide', 'ff0e::5', 7400)"),
        Do("t = udp6('fd77::2', 7402); send(t, 'bound', 'ff05::1', 7400)"),
        Do("n = udp6('fe80::2', 7403, scope=VB); send(n, 'from near', 'ff02::77', 7400)"),
        Do("option6(s, IF6, VB); send(s, 'by index', 'ff05::1', 7400); option6(s, IF6, 77)"),
        // Headers.
        Do(
            "option6(s, HOPS, 9); option6(s, socket.IPV6_TCLASS, 0x28); send(s, '9 hops', 'ff05::1', 7400)",
        ),
        Do("option6(s, HOPS, -1); option6(s, 16, 77); send(s, '1 hop', 'ff05::1', 7400)"),
        Do("option6(s, HOPS, 0); send(s, 'no hop', 'ff05::1', 7400); option6(s, HOPS, 255)"),
        Do("send(s, '255 hops', 'ff05::1', 7400); send(s, 'x' * 1453, 'ff05::1', 7400)"),
        // Connected.
        Do("c = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); c.connect(('ff05::1', 7400))"),
        Do("send(c, 'connected'); c.connect(('ff02::77', 7400, 0, VB)); send(c, 'again')"),
        // Bound to a group it sends from the interface's address.
        Do(
            "g = udp6('ff05::9', 7404); join6(g, 'ff05::9'); send(g, 'of a group', 'ff05::1', 7400)",
        ),
        Peer("take(p)"),
    ];
    // Through the kernel: what has no hop, and what is larger than a packet.
    compare_both(&pair, &[], &steps, counts((0, 0), (13, 2)));
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn members_on_this_host_have_their_copies() {
    let log = or_skip!(members_have_copies("pass"));
    assert!(!log.contains(READS_FILES), "{log}");
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn members_of_an_older_host_have_their_copies() {
    let log = or_skip!(members_have_copies("deny_notifications()"));
    assert!(log.contains(READS_FILES), "{log}");
}

fn members_have_copies(begin: &'static str) -> Result<String, Skip> {
    let pair = pair()?;
    let to_all = "send(s, 'hello', 'ff05::1', 7410)";
    let steps = [
        Do(begin),
        Peer("p = listener6(7410, 'ff05::1')"),
        Do("s = udp6('fd77::2', 7411)"),
        Do(to_all),
        Do("m = udp6('::', 7410); join6(m, 'ff05::1')"),
        Do(to_all),
        Do("take(m); m.close()"),
        Do(to_all),
        Other("o = udp6('::', 7410); join6(o, 'ff05::1')"),
        Do(to_all),
        Other("take(o)"),
        Do("option6(s, LOOP6, 0)"),
        Do(to_all),
        Other("take(o)"),
        // A socket of AF_INET6 loops groups of IPv4 back by the option of IPv6.
        Other("four = udp(ANY, 7410); join(four, '239.1.1.1')"),
        Do("d = udp6('::', 7412); by(d, ADDRESS); option(d, LOOP, 0)"),
        Do("send(d, 'looped', '::ffff:239.1.1.1', 7410); option6(d, LOOP6, 0)"),
        Do("send(d, 'not looped', '::ffff:239.1.1.1', 7410)"),
        Other("take(four)"),
        Peer("take(p)"),
    ];
    Ok(compare_both(&pair, &[], &steps, counts((0, 0), (4, 3))))
}

#[test]
#[ignore = "with the others it takes half a minute"]
fn all_nodes_of_the_link_are_members_by_themselves() {
    let pair = or_skip!(pair());
    let steps = [
        Peer("p = listener6(7420)"),
        Do("s = udp6('::', 7420)"),
        SendFrom("fe80::1%12", "[ff02::1%12]:7420", "to all"),
        Do("take(s); send(s, 'to all', 'ff02::1', 7420, 0, VB); take(s)"),
        Peer("take(p)"),
    ];
    compare_both(&pair, &[], &steps, counts((0, 2), (0, 1)));
}

#[test]
fn link_local_addresses_are_those_of_an_interface() {
    let pair = or_skip!(pair());
    let steps = [
        Do("s = udp6('::', 7431); option6(s, 49, 1)"),
        Peer("p = listener6(7430); p.connect(('fe80::2', 7431, 0, 12)); send(p, 'one')"),
        Peer("send(p, 'two')"),
        Do("take(s); send(s, 'three', 'fe80::1', 7430, 0, VB)"),
        Do("send(s, 'no scope', 'fe80::1', 7430); send(s, 'wrong', 'fe80::1', 7430, 0, 1)"),
        Do("s.close(); n = udp6('fe80::2', 7431, scope=VB)"),
        Peer("send(p, 'four')"),
        Do("take(n); send(n, 'five', 'fe80::1', 7430); n.connect(('fe80::1', 7430, 0, VB))"),
        Peer("send(p, 'six')"),
        Do("take(n); send(n, 'seven'); print(n.getsockname(), n.getpeername())"),
        Peer("take(p)"),
    ];
    compare_both(&pair, &[], &steps, counts((2, 0), (2, 0)));
}
