//! Sockets at one port for any group that somebody on the host has joined (`IP_MULTICAST_ALL`, as
//! it is by default).

use testkit::{Namespaces, or_skip};

use crate::filters::{NINE, ONE, pair_with_two_sources};
use crate::script::Step::{Do, Other, Send, SendFrom};
use crate::script::compare;
use crate::six;

#[test]
fn each_gets_what_the_others_joined() {
    let pair = or_skip!(pair_with_two_sources());
    let own = "239.1.3.2:7400";
    let steps = [
        Do("f = [member(7400, f'239.1.3.{i}') for i in range(4)]"),
        Send("239.1.3.0:7400", "a"),
        Send("239.1.3.1:7400", "b"),
        Send("239.1.3.3:7400", "c"),
        Send("239.1.3.9:7400", "nobody's"),
        Do("[take(s) for s in f]"),
        Do("option(f[1], 49, 0)"),
        Send("239.1.3.0:7400", "d"),
        Send("239.1.3.1:7400", "e"),
        Do("[take(s) for s in f]"),
        // IP_BLOCK_SOURCE: what nobody lets in only the kernel knows.
        Do("option(f[2], 38, sources('239.1.3.2', ADDRESS, '10.77.0.9'))"),
        SendFrom(ONE, own, "one"),
        SendFrom(NINE, own, "nine"),
        Do("[take(s) for s in f]"),
        Do("join(f[0], '239.1.3.2')"),
        SendFrom(ONE, own, "one"),
        SendFrom(NINE, own, "nine"),
        Do("[take(s) for s in f]"),
        Do("f.pop().close()"),
        Send("239.1.3.3:7400", "nobody's any more"),
        Send("239.1.3.0:7400", "f"),
        Do("[take(s) for s in f]"),
        Do("f.append(udp(ANY, 7400))"),
        Send("239.1.3.0:7400", "g"),
        Do("[take(s) for s in f]"),
        // Another process has its copy, and is seen soon.
        Other("o = udp(ANY, 7400); time.sleep(0.8)"),
        Send("239.1.3.0:7400", "h"),
        Other("take(o); o.close(); time.sleep(0.1)"),
        Do("[take(s) for s in f]"),
        Do("f.append(udp('239.1.3.0', 7400))"),
        Send("239.1.3.0:7400", "i"),
        Do("[take(s) for s in f]"),
    ];
    compare(&pair, &steps, 9 + 5 + 3 + 2 + 3 + 4, 2 + 3);
}

#[test]
fn the_last_member_takes_its_group_along() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        // As long as it is there, the port is one of groups.
        Do("k = udp('239.1.3.8', 7410); join(k, '239.1.3.8')"),
        Do("f = [member(7410, '239.1.3.1'), udp(ANY, 7410), udp(ANY, 7410)]"),
        Send("239.1.3.1:7410", "a"),
        Do("[take(s) for s in f]"),
        Do("leave(f[0], '239.1.3.1')"),
        Send("239.1.3.1:7410", "b"),
        Do("[take(s) for s in f]"),
        Do("join(f[0], '239.1.3.2')"),
        Send("239.1.3.1:7410", "c"),
        Send("239.1.3.2:7410", "d"),
        Do("[take(s) for s in f]"),
        Do("f.pop(0).close()"),
        Send("239.1.3.2:7410", "e"),
        Do("[take(s) for s in f]"),
        // What is the kernel's for good may have any group.
        Do("join(f[0], '239.1.3.3')"),
        Send("239.1.3.3:7410", "f"),
        Do("[take(s) for s in f]"),
        Do("fd = os.dup(f[1].fileno()); option(f[1], 1, 1, socket.IPPROTO_UDP)"),
        Send("239.1.3.3:7410", "g"),
        Do("[take(s) for s in f]"),
        Do("os.close(fd); f.pop().close(); f.append(udp(ANY, 7410))"),
        Send("239.1.3.3:7410", "h"),
        Do("[take(s) for s in f]"),
    ];
    compare(&pair, &steps, 5, 1);
}

#[test]
fn each_gets_what_the_others_joined_over_ipv6() {
    let pair = or_skip!(six::pair());
    let steps = [
        Do("f = [member6(7420, f'ff05::{i}') for i in range(1, 4)]"),
        Send("[ff05::1]:7420", "a"),
        Send("[ff05::3]:7420", "b"),
        Send("[ff05::4]:7420", "nobody's"),
        Do("[take(s) for s in f]"),
        // IPV6_MULTICAST_ALL
        Do("option6(f[0], 29, 0)"),
        Send("[ff05::2]:7420", "c"),
        Send("[ff05::1]:7420", "d"),
        Do("[take(s) for s in f]"),
        // Nor has it groups of IPv4 that others joined; those are for its own members.
        Do("join(f[1], '239.1.3.1')"),
        Send("239.1.3.1:7420", "e"),
        Do("[take(s) for s in f]"),
        Do("f.pop().close()"),
        Send("[ff05::3]:7420", "nobody's any more"),
        Send("[ff05::2]:7420", "f"),
        Do("[take(s) for s in f]"),
    ];
    compare(&pair, &steps, 4 + 3 + 1 + 1, 0);
}
