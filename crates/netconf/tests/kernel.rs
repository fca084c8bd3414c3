//! The kernel's network configuration in namespaces of the test's own, changed with ip(8).

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::thread;
use std::time::{Duration, Instant};

use netconf::{
    IpsecPolicies, Neighbour, NeighbourState, Netconf, RouteError, RouteKind, RouteQuery,
    TcpConnectionInfo, TcpEnds, TcpSockets,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use testkit::{Namespaces, Pair, RawLink, or_skip};

const SOON: Duration = Duration::from_secs(60);
const NEXT_HOP: IpAddr = IpAddr::V4(Pair::ADDRESS_B);

/// Takes in events until `condition` holds; fails after a while.
fn wait_until(netconf: &mut Netconf, condition: impl Fn(&Netconf) -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition(netconf) {
        assert!(
            Instant::now() < deadline,
            "the expected change was not notified"
        );
        netconf.process_events().unwrap();
        thread::sleep(Duration::from_millis(2));
    }
}

fn open(pair: &Pair) -> Netconf {
    pair.a.enter(Netconf::open).unwrap()
}

fn index_of(netconf: &Netconf, name: &str) -> u32 {
    netconf
        .links()
        .find(|link| link.name == name)
        .unwrap()
        .index
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Makes the kernel resolve the peer by sending to it.
fn send_to_peer(pair: &Pair) {
    let sender = pair
        .a
        .enter(|| UdpSocket::bind((Pair::ADDRESS_A, 0)))
        .unwrap();
    sender.send_to(b"x", (Pair::ADDRESS_B, 9)).unwrap();
}

/// Runs a change and returns whether the generation advanced, with what was reported.
fn after(pair: &Pair, netconf: &mut Netconf, line: &str) -> (bool, netconf::Changes) {
    netconf.process_events().unwrap();
    let before = netconf.generation();
    pair.a.ip_batch(line).unwrap();
    let changes = netconf.process_events().unwrap();
    (netconf.generation() != before, changes)
}

#[test]
fn links_are_described_as_they_are() {
    let pair = or_skip!(Namespaces::new().mtu(1600).queues(2).create());
    let netconf = open(&pair);
    assert_eq!(netconf.unreadable_entries(), 0);
    let va = netconf.link(index_of(&netconf, "va")).unwrap();
    assert!(va.up && va.running && va.ethernet && !va.loopback);
    assert_eq!((va.mtu, va.rx_queues, va.master), (1600, 2, None));
    assert_eq!(va.kind.as_deref(), Some("veth"));
    assert_eq!(va.mac, Some(RawLink::open(&pair.a, "va").unwrap().mac()));

    let lo = netconf.link(index_of(&netconf, "lo")).unwrap();
    assert!(lo.up && lo.loopback && !lo.ethernet);
    assert_eq!(lo.kind, None);
    assert!(netconf.link(99_999).is_none());
}

#[test]
fn addresses_are_found_by_link_and_links_by_address() {
    let pair = or_skip!(Namespaces::new().second_subnet().ipv6().create());
    let netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let of_va: Vec<_> = netconf
        .addresses_of(va)
        .map(|it| (it.address, it.prefix_len))
        .collect();
    for expected in [
        ("10.77.0.1", 24),
        ("10.78.0.1", 24),
        ("fd77::1", 64),
        ("fe80::1", 64),
    ] {
        assert!(
            of_va.contains(&(ip(expected.0), expected.1)),
            "{expected:?}: {of_va:?}"
        );
    }
    assert!(
        netconf
            .addresses()
            .iter()
            .all(|address| !address.secondary && !address.tentative)
    );
    assert_eq!(netconf.link_of_address(ip("10.78.0.1")).unwrap().index, va);
    assert_eq!(netconf.link_of_address(ip("fd77::1")).unwrap().index, va);
    assert!(netconf.link_of_address(ip("127.0.0.1")).unwrap().loopback);
    assert!(
        netconf.link_of_address(NEXT_HOP).is_none(),
        "that is the peer's"
    );
}

#[test]
fn an_address_comes_and_goes() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let (bumped, changes) = after(&pair, &mut netconf, "address add 10.77.0.9/24 dev va");
    assert!(bumped && changes.addresses && !changes.links, "{changes:?}");
    let added = netconf
        .addresses()
        .iter()
        .find(|it| it.address == ip("10.77.0.9"))
        .unwrap();
    assert!(added.secondary, "the second of its subnet");

    let (bumped, changes) = after(&pair, &mut netconf, "address delete 10.77.0.9/24 dev va");
    assert!(bumped && changes.addresses, "{changes:?}");
    assert!(netconf.link_of_address(ip("10.77.0.9")).is_none());
}

#[test]
fn addresses_of_ipv6_say_whether_they_can_be_used() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let mut netconf = open(&pair);
    let of = |netconf: &Netconf, address: &str| {
        let mut addresses = netconf.addresses().iter();
        let found = addresses.find(|it| it.address == ip(address)).unwrap();
        (found.tentative, found.deprecated)
    };
    assert_eq!(of(&netconf, "fd77::1"), (false, false));
    let line = "address add fd77::9/64 dev va nodad preferred_lft 0";
    let (_, changes) = after(&pair, &mut netconf, line);
    assert!(changes.addresses, "{changes:?}");
    assert_eq!(of(&netconf, "fd77::9"), (false, true));
    // The peer has it.
    let (_, changes) = after(&pair, &mut netconf, "address add fd77::2/64 dev va");
    assert!(changes.addresses, "{changes:?}");
    assert!(of(&netconf, "fd77::2").0, "nobody has answered yet");
    wait_until(&mut netconf, |_| {
        let shown = pair.a.ip(&["address", "show", "dev", "va"]).unwrap();
        shown.contains("dadfailed")
    });
    assert!(of(&netconf, "fd77::2").0);
}

#[test]
fn the_address_of_a_point_to_point_link_is_our_own() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    after(
        &pair,
        &mut netconf,
        "address add 10.55.0.1 peer 10.55.0.2/32 dev va",
    );
    assert!(netconf.link_of_address(ip("10.55.0.1")).is_some());
    assert!(netconf.link_of_address(ip("10.55.0.2")).is_none());
}

#[test]
fn a_link_goes_down_and_up() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let (bumped, changes) = after(&pair, &mut netconf, "link set va down");
    assert!(bumped && changes.links, "{changes:?}");
    assert_eq!(changes.changed_links, [va]);
    assert!(!netconf.link(va).unwrap().up);

    let (bumped, _) = after(&pair, &mut netconf, "link set va up");
    assert!(bumped);
    wait_until(&mut netconf, |it| {
        it.link(va).is_some_and(|link| link.up && link.running)
    });

    // The carrier goes with the peer, though nobody touched this end.
    let before = netconf.generation();
    pair.b.ip(&["link", "set", "vb", "down"]).unwrap();
    wait_until(&mut netconf, |it| {
        it.link(va).is_some_and(|link| link.up && !link.running)
    });
    assert!(netconf.generation() > before);
}

#[test]
fn links_appear_and_disappear_with_all_that_is_theirs() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let lines = "link add eddy type veth peer name eddy-peer\naddress add 10.66.0.1/24 dev eddy\nlink set eddy up\n\
                 neigh add 10.66.0.2 lladdr 02:00:00:00:00:02 dev eddy nud permanent\n";
    let (bumped, changes) = after(&pair, &mut netconf, lines);
    assert!(
        bumped && changes.links && changes.addresses && changes.neighbours,
        "{changes:?}"
    );
    let eddy = index_of(&netconf, "eddy");
    let peer = index_of(&netconf, "eddy-peer");
    assert!(changes.changed_links.contains(&peer));
    assert!(netconf.neighbour(eddy, ip("10.66.0.2")).unwrap().usable());

    let (bumped, changes) = after(&pair, &mut netconf, "link delete eddy");
    assert!(
        bumped && changes.changed_links.contains(&eddy),
        "{changes:?}"
    );
    assert!(netconf.link(eddy).is_none() && netconf.link(peer).is_none());
    assert!(netconf.addresses_of(eddy).next().is_none());
    assert!(netconf.neighbour(eddy, ip("10.66.0.2")).is_none());
}

#[test]
fn leaving_a_bridge_is_not_leaving_the_host() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let lines = "link add br0 type bridge\nlink set br0 up\nlink set va master br0\n";
    let (bumped, _) = after(&pair, &mut netconf, lines);
    assert!(bumped);
    let bridge = index_of(&netconf, "br0");
    assert_eq!(
        netconf.link(bridge).unwrap().kind.as_deref(),
        Some("bridge")
    );
    assert_eq!(netconf.link(va).unwrap().master, Some(bridge));

    let (bumped, changes) = after(&pair, &mut netconf, "link set va nomaster");
    assert!(bumped && changes.links);
    assert_eq!(
        netconf.link(va).expect("the link is still there").master,
        None
    );
}

#[test]
fn a_neighbour_is_learned_by_sending_and_forgotten_by_flushing() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    assert!(netconf.neighbour(va, NEXT_HOP).is_none());
    let before = netconf.generation();
    send_to_peer(&pair);
    wait_until(&mut netconf, |it| {
        it.neighbour(va, NEXT_HOP).is_some_and(Neighbour::usable)
    });
    assert!(netconf.generation() > before);
    let peer = RawLink::open(&pair.b, "vb").unwrap();
    let neighbour = netconf.neighbour(va, NEXT_HOP).unwrap();
    assert_eq!(neighbour.mac, Some(peer.mac()));
    assert_eq!(neighbour.state, NeighbourState::Reachable);

    let before = netconf.generation();
    pair.a.ip(&["neigh", "flush", "dev", "va"]).unwrap();
    wait_until(&mut netconf, |it| {
        it.neighbour(va, NEXT_HOP).is_none_or(|it| !it.usable())
    });
    assert!(netconf.generation() > before);
}

#[test]
fn staleness_is_reported_and_does_not_bump_the_generation() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let entry = "neigh replace 10.77.0.2 lladdr 02:00:00:00:00:02 dev va nud";
    let (bumped, changes) = after(&pair, &mut netconf, &format!("{entry} reachable"));
    assert!(
        bumped && changes.neighbours && changes.stale_neighbours.is_empty(),
        "{changes:?}"
    );

    let (bumped, changes) = after(&pair, &mut netconf, &format!("{entry} stale"));
    assert!(!bumped && changes.neighbours, "{changes:?}");
    assert_eq!(changes.stale_neighbours, [(va, NEXT_HOP)]);
    assert!(netconf.neighbour(va, NEXT_HOP).unwrap().usable());

    let (bumped, _) = after(&pair, &mut netconf, &format!("{entry} reachable"));
    assert!(!bumped);

    let moved = "neigh replace 10.77.0.2 lladdr 02:00:00:00:00:03 dev va nud stale";
    let (bumped, _) = after(&pair, &mut netconf, moved);
    assert!(bumped, "frames go elsewhere");
    assert_eq!(
        netconf.neighbour(va, NEXT_HOP).unwrap().mac,
        Some([2, 0, 0, 0, 0, 3])
    );
}

#[test]
fn probing_verifies_a_stale_neighbour() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let sysctl = "/proc/sys/net/ipv4/neigh/va/delay_first_probe_time";
    if let Err(error) = pair.a.enter(|| fs::write(sysctl, "1")) {
        testkit::skip(format_args!("cannot write {sysctl}: {error}"));
        return;
    }
    send_to_peer(&pair);
    wait_until(&mut netconf, |it| {
        it.neighbour(va, NEXT_HOP).is_some_and(Neighbour::usable)
    });
    let mac = netconf.neighbour(va, NEXT_HOP).unwrap().mac;
    after(
        &pair,
        &mut netconf,
        "neigh change 10.77.0.2 dev va nud stale",
    );
    let is = |state| {
        move |it: &Netconf| {
            it.neighbour(va, NEXT_HOP)
                .is_some_and(|it| it.state == state)
        }
    };
    assert!(is(NeighbourState::Stale)(&netconf));

    let before = netconf.generation();
    netconf.probe_neighbour(va, NEXT_HOP).unwrap();
    wait_until(&mut netconf, is(NeighbourState::Reachable));
    assert_eq!(netconf.neighbour(va, NEXT_HOP).unwrap().mac, mac);
    assert_eq!(netconf.generation(), before, "the same neighbour as before");
}

#[test]
fn probing_resolves_an_unknown_neighbour() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let mac = RawLink::open(&pair.b, "vb").unwrap().mac();
    for address in [NEXT_HOP, Pair::IPV6_ADDRESS_B.into()] {
        assert!(netconf.neighbour(va, address).is_none());
        netconf.probe_neighbour(va, address).unwrap();
        wait_until(&mut netconf, |it| {
            it.neighbour(va, address).is_some_and(Neighbour::usable)
        });
        assert_eq!(netconf.neighbour(va, address).unwrap().mac, Some(mac));
    }
    let error = netconf.probe_neighbour(99_999, NEXT_HOP).unwrap_err();
    assert_eq!(error.errno(), Some(Errno::NODEV.raw_os_error()), "{error}");
}

#[test]
fn probing_leaves_a_permanent_neighbour_alone() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let va = index_of(&netconf, "va");
    let line = "neigh add 10.77.0.2 lladdr 02:00:00:00:00:02 dev va nud permanent";
    after(&pair, &mut netconf, line);
    netconf.probe_neighbour(va, NEXT_HOP).unwrap();
    let shown = pair
        .a
        .ip(&["neigh", "show", "10.77.0.2", "dev", "va"])
        .unwrap();
    assert!(shown.contains("PERMANENT"), "{shown}");
}

#[test]
fn routes_are_what_the_kernel_answers() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let netconf = open(&pair);
    let (va, lo) = (index_of(&netconf, "va"), index_of(&netconf, "lo"));
    let lines = "route add 192.0.2.0/24 via 10.77.0.2 mtu 1300\n\
                 route add 224.0.0.0/4 dev va\n\
                 route add 198.51.100.0/24 via inet6 fe80::2 dev va\n\
                 route add 2001:db8::/32 via fd77::2 mtu 1320 hoplimit 3\n";
    pair.a.ip_batch(lines).unwrap();
    let v4 = Some(IpAddr::V4(Pair::ADDRESS_A));
    let v6 = Some(IpAddr::V6(Pair::IPV6_ADDRESS_A));
    let unicast = RouteKind::Unicast;
    let expected = [
        ("10.77.0.2", unicast, va, None, v4, None),
        ("192.0.2.5", unicast, va, Some("10.77.0.2"), v4, Some(1300)),
        ("198.51.100.5", unicast, va, Some("fe80::2"), v4, None),
        ("10.77.0.255", RouteKind::Broadcast, va, None, v4, None),
        ("224.0.0.5", RouteKind::Multicast, va, None, v4, None),
        ("10.77.0.1", RouteKind::Local, lo, None, v4, None),
        ("fd77::2", unicast, va, None, v6, None),
        ("2001:db8::5", unicast, va, Some("fd77::2"), v6, Some(1320)),
        ("fd77::1", RouteKind::Local, lo, None, v6, None),
    ];
    for (destination, kind, output_interface, gateway, preferred_source, mtu) in expected {
        let route = netconf.route(&RouteQuery::to(ip(destination))).unwrap();
        assert_eq!(route.kind, kind, "{destination}");
        assert_eq!(route.output_interface, output_interface, "{destination}");
        assert_eq!(route.gateway, gateway.map(ip), "{destination}");
        assert_eq!(route.preferred_source, preferred_source, "{destination}");
        assert_eq!(route.mtu, mtu, "{destination}");
    }
    for (destination, hop_limit) in [("2001:db8::5", Some(3)), ("fd77::2", None)] {
        let route = netconf.route(&RouteQuery::to(ip(destination))).unwrap();
        assert_eq!(route.hop_limit, hop_limit, "{destination}");
    }
    // Unlike 224.0.0.5, ff02::1 needs to be told the interface.
    let query = RouteQuery {
        output_interface: Some(va),
        ..RouteQuery::to(ip("ff02::1"))
    };
    let route = netconf.route(&query).unwrap();
    assert_eq!(
        (route.kind, route.output_interface),
        (RouteKind::Multicast, va)
    );
}

#[test]
fn destinations_without_a_way_carry_the_errno() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let mut netconf = open(&pair);
    let lines = "route add unreachable 192.0.2.1/32\nroute add blackhole 192.0.2.2/32\n\
                 route add prohibit 192.0.2.3/32\n\
                 route add unreachable 2001:db8::1\nroute add blackhole 2001:db8::2\n\
                 route add prohibit 2001:db8::3\n";
    let (bumped, changes) = after(&pair, &mut netconf, lines);
    assert!(bumped && changes.routes);
    let expected = [
        ("192.0.2.1", Errno::HOSTUNREACH),
        ("192.0.2.2", Errno::INVAL),
        ("192.0.2.3", Errno::ACCESS),
        ("192.0.2.4", Errno::NETUNREACH),
        ("2001:db8::1", Errno::HOSTUNREACH),
        ("2001:db8::2", Errno::INVAL),
        ("2001:db8::3", Errno::ACCESS),
        ("2001:db8::4", Errno::NETUNREACH),
    ];
    for (destination, errno) in expected {
        let error = netconf.route(&RouteQuery::to(ip(destination))).unwrap_err();
        assert_eq!(
            error.errno(),
            Some(errno.raw_os_error()),
            "{destination}: {error}"
        );
        assert!(error.to_string().contains(destination), "{error}");
    }
    let foreign = RouteQuery {
        source: Some(ip("10.1.2.3")),
        ..RouteQuery::to(NEXT_HOP)
    };
    let errno = netconf
        .route(&foreign)
        .unwrap_err()
        .errno()
        .map(Errno::from_raw_os_error);
    // Kernels differ.
    assert!(
        matches!(errno, Some(Errno::INVAL | Errno::NETUNREACH)),
        "{errno:?}"
    );
    let mixed = RouteQuery {
        source: Some(ip("fd77::1")),
        ..RouteQuery::to(NEXT_HOP)
    };
    assert!(matches!(
        netconf.route(&mixed),
        Err(RouteError::MixedFamilies { .. })
    ));
}

#[test]
fn policy_rules_decide_by_mark_source_and_tos() {
    let pair = or_skip!(Namespaces::new().second_subnet().create());
    let mut netconf = open(&pair);
    let lines = "route add default via 10.77.0.2\n\
                 route add default via 10.77.0.3 table 103\n\
                 route add default via 10.77.0.4 table 104\n\
                 route add default via 10.77.0.5 table 105\n";
    after(&pair, &mut netconf, lines);
    let rules = "rule add fwmark 42 table 103\nrule add from 10.78.0.1 table 104\n\
                 rule add tos 0x10 table 105\n";
    let (bumped, changes) = after(&pair, &mut netconf, rules);
    assert!(bumped && changes.routes, "{changes:?}");

    let plain = RouteQuery::to(ip("192.0.2.1"));
    let marked = RouteQuery {
        mark: 42,
        ..plain.clone()
    };
    let sourced = RouteQuery {
        source: Some(Pair::SECOND_ADDRESS_A.into()),
        ..plain.clone()
    };
    // The ECN bits are not part of the decision.
    let typed = RouteQuery {
        tos: 0x13,
        ..plain.clone()
    };
    let cases = [
        (&plain, "10.77.0.2"),
        (&marked, "10.77.0.3"),
        (&sourced, "10.77.0.4"),
        (&typed, "10.77.0.5"),
    ];
    for (query, gateway) in cases {
        assert_eq!(
            netconf.route(query).unwrap().gateway,
            Some(ip(gateway)),
            "{query:?}"
        );
    }
    assert_eq!(
        netconf.route(&sourced).unwrap().preferred_source,
        sourced.source
    );

    let (bumped, changes) = after(&pair, &mut netconf, "rule delete fwmark 42 table 103");
    assert!(bumped && changes.routes);
    assert_eq!(netconf.route(&marked).unwrap().gateway, Some(NEXT_HOP));
}

#[test]
fn each_way_to_change_a_route_bumps_the_generation() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let mut netconf = open(&pair);
    for line in [
        "route add 192.0.2.0/24 via 10.77.0.2",
        "route replace 192.0.2.0/24 via 10.77.0.3",
        "route delete 192.0.2.0/24",
        "route add 2001:db8::/32 via fd77::2",
        "route delete 2001:db8::/32",
        "nexthop add id 1 via 10.77.0.2 dev va",
        "route add 198.51.100.0/24 nhid 1",
        "nexthop replace id 1 via 10.77.0.3 dev va",
        "nexthop delete id 1",
    ] {
        let (bumped, changes) = after(&pair, &mut netconf, line);
        assert!(bumped && changes.routes, "{line}: {changes:?}");
    }
    for (line, destination) in [
        ("route add 192.0.2.0/24 via 10.77.0.2", ("192.0.2.0", 24)),
        ("route delete 192.0.2.0/24", ("192.0.2.0", 24)),
        ("route add default via 10.77.0.2", ("0.0.0.0", 0)),
        ("route add 2001:db8::/32 via fd77::2", ("2001:db8::", 32)),
    ] {
        let changes = after(&pair, &mut netconf, line).1;
        assert!(!changes.all_routes, "{line}");
        let (address, prefix_len) = destination;
        assert_eq!(changes.changed_routes, [(ip(address), prefix_len)]);
    }
    let changes = after(&pair, &mut netconf, "rule add fwmark 9 table 100").1;
    assert!(changes.all_routes && changes.changed_routes.is_empty());
    // Not in the loop: a batch of ip(8) cannot name the family of a rule.
    let before = netconf.generation();
    pair.a
        .ip(&["-6", "rule", "add", "fwmark", "7", "table", "100"])
        .unwrap();
    assert!(netconf.process_events().unwrap().routes && netconf.generation() > before);

    let unchanged = netconf.generation();
    assert!(netconf.process_events().unwrap().is_empty());
    netconf.route(&RouteQuery::to(NEXT_HOP)).unwrap();
    assert_eq!(netconf.generation(), unchanged, "asking changes nothing");
}

#[test]
fn the_event_descriptor_is_readable_while_there_is_something_to_do() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = open(&pair);
    let is_readable = |netconf: &Netconf| {
        let mut entries = [PollFd::new(netconf, PollFlags::IN)];
        poll(&mut entries, Some(&Timespec::default())).unwrap();
        let [entry] = entries;
        assert_eq!(
            netconf.events_descriptor().as_raw_fd(),
            netconf.as_fd().as_raw_fd()
        );
        entry.revents().contains(PollFlags::IN)
    };
    netconf.process_events().unwrap();
    assert!(!is_readable(&netconf));
    pair.a
        .ip(&["address", "add", "10.77.0.9/24", "dev", "va"])
        .unwrap();
    assert!(is_readable(&netconf));
    netconf.process_events().unwrap();
    assert!(!is_readable(&netconf));
}

#[test]
fn ipsec_policies_are_noticed() {
    let pair = or_skip!(Namespaces::pair());
    let mut policies = match pair.a.enter(IpsecPolicies::open) {
        Err(error) if error.errno() == Some(Errno::PROTONOSUPPORT.raw_os_error()) => {
            return testkit::skip("this kernel has no IPsec");
        }
        policies => policies.unwrap(),
    };
    assert!(!policies.any() && !policies.process_events().unwrap());
    let policy = "dir out src 192.0.2.0/24 dst 198.51.100.0/24";
    let add = format!(
        "xfrm policy add {policy} tmpl src 192.0.2.1 dst 198.51.100.1 proto esp mode tunnel"
    );
    for (change, changed, any) in [
        (add.as_str(), true, true),
        (
            "xfrm policy add dir in src 10.0.0.0/8 dst 10.0.0.0/8 action allow",
            false,
            true,
        ),
        ("xfrm policy flush", true, false),
        ("xfrm policy setdefault out block", true, true),
        ("xfrm policy setdefault out accept", true, false),
    ] {
        let words: Vec<_> = change.split(' ').collect();
        pair.a.ip(&words).unwrap();
        assert_eq!(policies.process_events().unwrap(), changed, "{change}");
        assert_eq!(policies.any(), any, "{change}");
        assert!(!policies.process_events().unwrap());
    }
}

#[test]
fn udp_sockets_are_listed_with_their_addresses() {
    use std::os::unix::fs::MetadataExt;
    let pair = or_skip!(Namespaces::pair());
    let listed = |port| pair.a.enter(|| netconf::udp_sockets(port)).unwrap();
    assert!(listed(None).is_empty());
    let bind = |address: &str| {
        let address = address.to_owned();
        pair.a.enter(|| UdpSocket::bind(address)).unwrap()
    };
    let (any, one) = (bind("0.0.0.0:5001"), bind("10.77.0.1:5002"));
    let six = bind("[::]:5003");
    one.connect((Pair::ADDRESS_B, 9)).unwrap();
    let inode = |socket: &UdpSocket| {
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        u32::try_from(fs::metadata(path).unwrap().ino()).unwrap()
    };
    for socket in [&any, &one, &six] {
        let local = socket.local_addr().unwrap();
        let found = listed(Some(local.port()));
        let [info] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!((info.local, info.peer), (local, socket.peer_addr().ok()));
        assert_eq!(info.inode, inode(socket));
    }
    assert_eq!(listed(None).len(), 3);
    assert!(listed(Some(5004)).is_empty());
}

#[test]
fn listeners_are_listed_with_their_addresses() {
    use std::os::unix::fs::MetadataExt;
    let pair = or_skip!(Namespaces::pair());
    pair.a.enter(|| {
        let mut sockets = TcpSockets::open().unwrap();
        let mut listed = |port| sockets.listeners(port).unwrap();
        assert!(listed(None).is_empty());
        let listeners = ["0.0.0.0:5001", "10.77.0.1:5002", "[::]:5003"]
            .map(|address| TcpListener::bind(address).unwrap());
        // A connection is none.
        let _client = TcpStream::connect("10.77.0.1:5002").unwrap();
        for listener in &listeners {
            let local = listener.local_addr().unwrap();
            let path = format!("/proc/self/fd/{}", listener.as_raw_fd());
            let found = listed(Some(local.port()));
            let [info] = &found[..] else {
                panic!("{found:?}")
            };
            let inode = fs::metadata(path).unwrap().ino();
            assert_eq!((info.local, u64::from(info.inode)), (local, inode));
        }
        assert_eq!(listed(None).len(), 3);
        assert!(listed(Some(5004)).is_empty());
    });
}

#[test]
fn a_connection_is_ended_and_its_listener_stays() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    for address in [Pair::ADDRESS_A.into(), Pair::IPV6_ADDRESS_A.into()] {
        end_connections_at(&pair, address);
    }
}

fn end_connections_at(pair: &Pair, address: IpAddr) {
    pair.a.enter(|| {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let local = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(local).unwrap();
        let peer = client.local_addr().unwrap();
        drop(listener.accept().unwrap());
        assert_eq!(client.read(&mut [0]).unwrap(), 0);
        drop(client);
        // TIME-WAIT is at the server.
        let mut kernel = TcpSockets::open().unwrap();
        assert!(!kernel.find(local, peer).unwrap().unwrap().listening);
        assert!(kernel.end(local, peer, 0).unwrap());
        assert!(kernel.find(local, peer).unwrap().unwrap().listening);
        assert!(!kernel.end(local, peer, 0).unwrap());

        let client = TcpStream::connect(local).unwrap();
        let mut accepted = listener.accept().unwrap().0;
        let peer = client.local_addr().unwrap();
        assert!(kernel.end(local, peer, 0).unwrap());
        let error = accepted.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        drop(listener);
        assert!(!kernel.end(local, peer, 0).unwrap());
    });
}

#[test]
fn the_kernel_tells_of_the_ends_of_tcp_sockets() {
    let pair = or_skip!(Namespaces::new().ipv6().create());
    let addresses = [Pair::ADDRESS_A.into(), Pair::IPV6_ADDRESS_A.into()];
    for (address, server_first) in addresses
        .into_iter()
        .flat_map(|it| [(it, false), (it, true)])
    {
        pair.a.enter(|| follow_one_end(address, server_first));
    }
}

fn follow_one_end(address: IpAddr, server_first: bool) {
    let mut ends = TcpEnds::open().unwrap();
    let mut kernel = TcpSockets::open().unwrap();
    let listener = TcpListener::bind((address, 0)).unwrap();
    let local = listener.local_addr().unwrap();
    let client = TcpStream::connect(local).unwrap();
    let peer = client.local_addr().unwrap();
    let server = listener.accept().unwrap().0;
    let cookie = rustix::net::sockopt::socket_cookie(&server).unwrap();
    let known = kernel.connection(local, peer, 0).unwrap().unwrap();
    let TcpConnectionInfo { waits, .. } = known;
    assert_eq!((known.local, known.peer), (local, peer));
    assert_eq!((known.cookie, waits), (cookie, None));
    assert_eq!(kernel.connections_at(local.port()).unwrap(), [known]);

    // Nobody has asked yet.
    drop(TcpStream::connect(local).unwrap());
    let mut ended = Vec::new();
    assert!(!ends.take(|it| ended.push(it)).unwrap());
    assert_eq!(ended, []);

    ends.follow(|socket, group| {
        change_membership(socket.as_raw_fd(), libc::NETLINK_ADD_MEMBERSHIP, group)
    })
    .unwrap();
    if server_first {
        drop(server);
        drop(client);
    } else {
        drop(client);
        drop(server);
    }
    let deadline = Instant::now() + SOON;
    while !ended.contains(&cookie) {
        assert!(Instant::now() < deadline, "the end was not told of");
        assert!(!ends.take(|it| ended.push(it)).unwrap());
        thread::sleep(Duration::from_millis(2));
    }
    // Who closes first waits.
    let left = kernel.connection(local, peer, 0).unwrap();
    match left.and_then(|left| left.waits) {
        Some(waits) => {
            assert!(server_first);
            assert!((Duration::from_secs(50)..=Duration::from_secs(61)).contains(&waits));
        }
        None => assert_eq!((left, server_first), (None, false)),
    }

    ends.follow(|socket, group| {
        change_membership(socket.as_raw_fd(), libc::NETLINK_DROP_MEMBERSHIP, group)
    })
    .unwrap();
    ended.clear();
    // What was told before may come until here.
    ends.take(drop).unwrap();
    drop(listener);
    assert!(!ends.take(|it| ended.push(it)).unwrap());
    assert_eq!(ended, []);
}

fn change_membership(socket: i32, change: i32, group: u32) -> std::io::Result<()> {
    let len = u32::try_from(size_of_val(&group)).unwrap();
    let group = (&raw const group).cast();
    // SAFETY: the kernel reads `group`, and no more than its size.
    match unsafe { libc::setsockopt(socket, libc::SOL_NETLINK, change, group, len) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
