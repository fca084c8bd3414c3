//! Sending to groups.

use std::path::Path;

use testkit::{Namespaces, Skip, or_skip};

use crate::script::Step::{Do, Other, Peer, Send};
use crate::script::{Counts, compare_both, with_library};

fn counts(received: (u64, u64), sent: (u64, u64)) -> Counts {
    Counts { received, sent }
}

#[test]
fn interface_address_and_headers_are_the_kernels() {
    let pair = or_skip!(Namespaces::pair());
    let route = ["route", "add", "239.2.0.0/16", "dev", "vb"];
    pair.b.ip(&route).unwrap();
    let steps = [
        Peer("p = listener(7400, '239.1.1.1', '239.2.1.1')"),
        // No interface, and no route.
        Do("s = udp(ANY, 7401, False); send(s, 'lost', '239.1.1.1', 7400)"),
        // By route, or by the address that it is bound to.
        Do("send(s, 'routed', '239.2.1.1', 7400)"),
        Do("t = udp(ADDRESS, 7402); send(t, 'bound', '239.1.1.1', 7400)"),
        // struct in_addr, ip_mreq, ip_mreqn; by index; and back.
        Do("by(s, ADDRESS); send(s, 'by address', '239.1.1.1', 7400)"),
        Do("by(s, '10.99.0.1'); by(s, 77); by(s, ANY); send(s, 'lost', '239.1.1.1', 7400)"),
        Do("option(s, IF, mreq('0.0.0.0', ADDRESS)); send(s, 'by request', '239.1.1.1', 7400)"),
        Do("option(s, IF, bytes(12)); by(s, 23); send(s, 'by index', '239.1.1.1', 7400)"),
        Do("print(s.getsockopt(IP, IF, 4)); by(t, 23); send(t, 'both', '239.1.1.1', 7400)"),
        // Headers.
        Do("option(s, TTL, 9); option(s, 1, 0x28); send(s, 'ttl 9', '239.1.1.1', 7400)"),
        Do(
            "option(s, TTL, -1); option(s, 2, 77); option(s, 10, 0); send(s, 'ttl 1', '239.1.1.1', 7400)",
        ),
        Do("option(s, TTL, 0); send(s, 'ttl 0', '239.1.1.1', 7400); option(s, TTL, 255)"),
        Do("send(s, 'ttl 255', '239.1.1.1', 7400)"),
        // Connected.
        Do("c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); by(c, ADDRESS)"),
        Do("c.connect(('239.1.1.1', 7400)); c.getsockname()[0]; send(c, 'connected')"),
        Do("by(c, ANY); send(c, 'still'); send(c, 'x' * 1473)"),
        // A socket that is bound to a group sends from the interface's address.
        Do("g = udp('239.1.1.9', 7403); join(g, '239.1.1.9'); by(g, 23)"),
        Do("send(g, 'from the interface', '239.1.1.1', 7400)"),
        Peer("take(p)"),
    ];
    // Through the kernel: TTL 0, and what is larger than a packet; beside what has no way.
    compare_both(&pair, &[], &steps, counts((0, 0), (12, 2)));
}

/// What the log says of it.
pub(crate) const READS_FILES: &str = "the kernel does not tell of its groups";

#[test]
fn members_on_this_host_have_their_copies() {
    let log = or_skip!(members_have_copies("pass"));
    assert!(!log.contains(READS_FILES), "{log}");
}

#[test]
fn members_of_an_older_host_have_their_copies() {
    let log = or_skip!(members_have_copies("deny_notifications()"));
    assert!(log.contains(READS_FILES), "{log}");
}

fn members_have_copies(begin: &'static str) -> Result<String, Skip> {
    let pair = Namespaces::pair()?;
    let to_all = "send(s, 'hello', '239.1.1.1', 7410)";
    let steps = [
        Do(begin),
        Peer("p = listener(7410, '239.1.1.1')"),
        Do("s = udp(ADDRESS, 7411); by(s, ADDRESS)"),
        Do(to_all),
        // Of this process, and of another; of another port, too.
        Do("m = udp(ANY, 7410); join(m, '239.1.1.1')"),
        Do(to_all),
        Do("take(m); m.close()"),
        Do(to_all),
        Other("o = udp(ANY, 7410); join(o, '239.1.1.1'); elsewhere = udp(ANY, 7412)"),
        Do(to_all),
        Other("take(o); leave(o, '239.1.1.1'); join(elsewhere, '239.1.1.1')"),
        Do(to_all),
        Other("take(o); take(elsewhere)"),
        // Not looped.
        Do("option(s, LOOP, 0)"),
        Do(to_all),
        Do("option(s, LOOP, 1); option(s, TTL, 0)"),
        Do(to_all),
        Other("take(o); elsewhere.close()"),
        Do(to_all),
        Do("option(s, TTL, 1)"),
        // Other groups.
        Other("join(o, '239.1.1.2')"),
        Do(to_all),
        Peer("take(p)"),
    ];
    Ok(compare_both(&pair, &[], &steps, counts((0, 0), (4, 5))))
}

#[test]
fn who_joins_in_a_child_has_its_copy() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Peer("p = listener(7420, '239.1.1.1')"),
        Do("s = udp(ADDRESS, 7421); by(s, ADDRESS); send(s, 'one', '239.1.1.1', 7420)"),
        Do("child = child_joins(7420, '239.1.1.1'); time.sleep(0.01)"),
        // The child speaks at any time meanwhile.
        Do("s.sendto(b'two', ('239.1.1.1', 7420)); os.waitpid(child, 0)"),
        Do("time.sleep(0.01); send(s, 'three', '239.1.1.1', 7420)"),
        Peer("take(p)"),
    ];
    compare_both(&pair, &[], &steps, counts((0, 0), (2, 1)));
}

#[test]
fn sockets_may_begin_without_loop() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Peer("p = listener(7430, '239.1.1.1')"),
        Do("m = udp(ANY, 7430); join(m, '239.1.1.1')"),
        Do("s = udp(ADDRESS, 7431); by(s, ADDRESS); send(s, 'one', '239.1.1.1', 7430)"),
        Do("take(m)"),
        Send("239.1.1.1:7430", "two"),
        Do("take(m)"),
        Peer("take(p)"),
    ];
    let loopless = [("VMA_TX_MC_LOOPBACK", "0")];
    let (_, with_loop, log) = with_library(&pair, &[], &steps);
    assert_eq!(with_loop, counts((1, 1), (0, 1)), "{log}");
    let (_, without, log) = with_library(&pair, &loopless, &steps);
    assert_eq!(without, counts((1, 0), (1, 0)), "{log}");
}

#[test]
fn rules_of_receivers_and_senders_know_groups() {
    let pair = or_skip!(Namespaces::pair());
    let steps = [
        Peer("p = listener(7440, '239.1.1.1', '239.2.1.1')"),
        Do("a = udp(ANY, 7440); join(a, '239.1.1.3'); join(a, '239.2.1.3')"),
        Do("s = udp(ADDRESS, 7441); by(s, ADDRESS)"),
        Do("send(s, 'one', '239.1.1.1', 7440); send(s, 'two', '239.2.1.1', 7440)"),
        Send("239.1.1.3:7440", "three"),
        Do("take(a)"),
        Send("239.2.1.3:7440", "four"),
        Do("take(a)"),
        Peer("take(p)"),
    ];
    let name = format!("multicast-{}.conf", std::process::id());
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let rules = "use os udp_receiver 239.2.0.0/16:*\nuse os udp_sender 239.2.0.0/16:*\n";
    std::fs::write(&file, rules).unwrap();
    let environment = [("VMA_CONFIG_FILE", file.to_str().unwrap())];
    compare_both(&pair, &environment, &steps, counts((1, 1), (1, 1)));
    std::fs::remove_file(&file).unwrap();
}
