use std::fs;
use std::os::fd::AsRawFd;

use descriptors::lowest_number;
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::sockopt;
use testkit::{Namespaces, or_skip};

use super::*;

#[test]
fn descriptors_are_high_and_close_on_exec() {
    let netconf = Netconf::open().unwrap();
    let connection = netconf.connection();
    for fd in [netconf.events.as_fd(), connection.as_fd()] {
        assert!(fd.as_raw_fd() >= lowest_number(), "{fd:?}");
        assert_eq!(fcntl_getfd(fd).unwrap(), FdFlags::CLOEXEC);
        let target = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        assert!(
            target.to_str().unwrap().starts_with("socket:"),
            "{target:?}"
        );
    }
}

#[test]
fn an_overrun_is_followed_by_a_fresh_reading() {
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = pair.a.enter(Netconf::open).unwrap();
    // The kernel rounds up to its minimum, room for a message or two.
    sockopt::set_socket_recv_buffer_size(&netconf.events, 1).unwrap();

    let mut lines = String::new();
    for number in 1..=100 {
        lines += &format!("address add 10.99.0.{number}/32 dev va\n");
    }
    lines += "route add 192.0.2.0/24 via 10.77.0.2\nlink set va mtu 1400\n";
    lines += "address delete 10.99.0.50/32 dev va\n";
    pair.a.ip_batch(&lines).unwrap();

    let generation = netconf.generation();
    let changes = netconf.process_events().unwrap();
    assert!(
        changes.resynchronised && changes.routes && changes.addresses,
        "{changes:?}"
    );
    let va = netconf.links().find(|link| link.name == "va").unwrap();
    assert_eq!(changes.changed_links, [va.index]);
    assert_eq!(va.mtu, 1400);
    assert!(netconf.generation() > generation);
    // 10.77.0.1 and all but one of the hundred.
    assert_eq!(netconf.addresses_of(va.index).count(), 100);
    assert!(netconf.link_of_address([10, 99, 0, 50].into()).is_none());
    assert!(netconf.link_of_address([10, 99, 0, 100].into()).is_some());

    assert!(
        netconf.process_events().unwrap().is_empty(),
        "nothing is reported twice"
    );
    pair.a
        .ip(&["address", "add", "10.99.0.50/32", "dev", "va"])
        .unwrap();
    let changes = netconf.process_events().unwrap();
    assert!(changes.addresses && !changes.resynchronised, "{changes:?}");
}

#[test]
fn a_failed_resynchronisation_is_made_up_for() {
    // In a namespace where nothing else happens.
    let pair = or_skip!(Namespaces::pair());
    let mut netconf = pair.a.enter(Netconf::open).unwrap();
    netconf.lost = true;
    let generation = netconf.generation();
    netconf.pending.link(4711);
    // A connection that refuses to send: its socket is shut.
    let working = mem::replace(&mut netconf.connection, Mutex::new(Connection::broken()));
    netconf.process_events().unwrap_err();
    netconf.connection = working;
    let changes = netconf.process_events().unwrap();
    assert!(
        changes.resynchronised && changes.changed_links.contains(&4711),
        "{changes:?}"
    );
    assert!(!netconf.lost);
    assert!(
        netconf.generation() > generation,
        "a route may have changed unseen"
    );
}
