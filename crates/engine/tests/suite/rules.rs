//! Sockets that rules of `libvma.conf` leave to the kernel.

use std::net::SocketAddrV4;

use dev_core::Backend;
use engine::{Reason, SendOutcome};
use vma_config::rules::{ProcessRules, RuleFile};

use crate::support::calls::send;
use crate::support::host::Host;
use crate::support::isolation::{isolated, with_addresses};
use crate::support::{FIRST_LINK, PEER, SECOND_IP, SECOND_LINK};

fn follow<B: Backend>(host: &Host<B>, text: &str) {
    let file = RuleFile::parse(text);
    assert_eq!(file.errors, []);
    host.engine
        .follow_rules(ProcessRules::new(&file, "/etc/libvma.conf", "test", "*"));
}

#[test]
fn a_receiver_rule_leaves_the_port_to_the_kernel_and_says_so() {
    isolated(|| {
        let host = Host::new();
        follow(&host, "# one\nuse os udp_receiver *:7001\n");
        let ruled = host.bound("0.0.0.0:7001");
        let free = host.bound("0.0.0.0:7002");
        assert_eq!(ruled.reason(), Reason::ReceiverRule);
        assert_eq!(free.reason(), Reason::Offloaded);
        let seen = ruled.snapshot(&host).unwrap();
        assert_eq!((seen.offloaded, seen.rule), (false, 1));
        assert_eq!(free.snapshot(&host).unwrap().rule, 0);
        let rules = host.statistics().rules().unwrap();
        assert_eq!(rules[0].rule, "use os udp_receiver *:7001");
        assert_eq!(rules[0].origin, "/etc/libvma.conf:2");
        assert_eq!(host.count_of(Reason::ReceiverRule), 1);
        // A look at an unchanged network is no new decision.
        host.engine.network_changed(true);
        assert_eq!(host.count_of(Reason::ReceiverRule), 1);
    });
}

#[test]
fn a_receiver_rule_says_nothing_about_sending() {
    isolated(|| {
        let host = Host::new();
        follow(&host, "use os udp_receiver *:*");
        let socket = host.any();
        assert_eq!(host.device.wire(FIRST_LINK).flows(), []);
        assert_eq!(send(&socket, Some(PEER), b"hello"), SendOutcome::Done(5));
        assert_eq!(socket.snapshot(&host).unwrap().tx_packets, 1);
        // It stays so when a thread has gone to wait in the kernel, until an option needs the
        // kernel.
        let mut call = crate::support::calls::Receiving::begin(&socket, 0);
        let outcome = call.attempt(&mut [0; 8]);
        assert!(matches!(outcome, engine::RecvOutcome::Kernel));
        assert_eq!(send(&socket, Some(PEER), b"hello"), SendOutcome::Done(5));
        socket.set_option(libc::IPPROTO_UDP, libc::UDP_CORK, 1);
        assert_eq!(socket.reason(), Reason::Option);
        let outcome = send(&socket, Some(PEER), b"hello");
        assert_eq!(outcome, SendOutcome::Kernel(Reason::Option));
    });
}

#[test]
fn a_receiver_rule_for_one_address_leaves_the_others() {
    with_addresses(|| {
        let host = Host::new();
        follow(&host, "use os udp_receiver 10.0.0.0/24:*");
        let socket = host.any();
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(host.device.wire(FIRST_LINK).flows(), []);
        let flows = host.device.wire(SECOND_LINK).flows();
        assert_eq!(flows[0].local, socket.at(SECOND_IP).into());
    });
}

#[test]
fn a_sender_rule_is_for_its_destination() {
    isolated(|| {
        let host = Host::new();
        follow(&host, &format!("use os udp_sender {PEER}"));
        let socket = host.any();
        let other = SocketAddrV4::new(*PEER.ip(), PEER.port() + 1);
        assert_eq!(socket.reason(), Reason::Offloaded);
        for _ in 0..3 {
            let outcome = send(&socket, Some(PEER), b"ruled");
            assert_eq!(outcome, SendOutcome::Kernel(Reason::Rule));
            assert_eq!(send(&socket, Some(other), b"free"), SendOutcome::Done(4));
        }
        assert_eq!(host.count_of(Reason::Rule), 1, "once a destination");
    });
}

#[test]
fn a_connect_rule_leaves_the_socket_to_the_kernel_while_it_is_connected() {
    with_addresses(|| {
        let host = Host::new();
        follow(
            &host,
            &format!("use os udp_connect {PEER}\nuse os udp_connect *:9999"),
        );
        let socket = host.bound("0.0.0.0:0");
        assert_eq!(socket.reason(), Reason::Offloaded);
        socket.connect(PEER);
        assert_eq!(socket.reason(), Reason::Rule);
        assert_eq!(host.device.wire(FIRST_LINK).flows(), []);
        assert_eq!(socket.snapshot(&host).unwrap().rule, 1);
        assert_eq!(send(&socket, None, b"x"), SendOutcome::Kernel(Reason::Rule));
        socket.connect(SocketAddrV4::new(*PEER.ip(), 9999));
        assert_eq!(socket.snapshot(&host).unwrap().rule, 2);
        socket.connect(SocketAddrV4::new(*PEER.ip(), 9998));
        assert_eq!(socket.reason(), Reason::Offloaded);
    });
}

#[test]
fn a_connect_rule_ends_sending_past_the_kernel() {
    with_addresses(|| {
        let host = Host::new();
        follow(
            &host,
            &format!("use os udp_receiver *:*\nuse os udp_connect {PEER}"),
        );
        let socket = host.any();
        let mut call = crate::support::calls::Receiving::begin(&socket, 0);
        let outcome = call.attempt(&mut [0; 8]);
        assert!(matches!(outcome, engine::RecvOutcome::Kernel));
        assert_eq!(send(&socket, Some(PEER), b"x"), SendOutcome::Done(1));
        socket.connect(PEER);
        assert_eq!(socket.reason(), Reason::Rule);
        let outcome = send(&socket, None, b"x");
        assert_eq!(outcome, SendOutcome::Kernel(Reason::Rule));
    });
}

#[test]
fn a_program_that_is_left_to_the_kernel_opens_no_device() {
    isolated(|| {
        let host = Host::new();
        follow(&host, "use os udp_sender *:*\nuse os udp_receiver *:*\n");
        let socket = host.unbound();
        assert_eq!(socket.reason(), Reason::Rule);
        assert_eq!(socket.snapshot(&host).unwrap().rule, 2);
        socket.bind("0.0.0.0:0");
        assert_eq!(
            send(&socket, Some(PEER), b"x"),
            SendOutcome::Kernel(Reason::Rule)
        );
        assert_eq!(host.device.opens(), 0);
        assert_eq!(host.count_of(Reason::Rule), 1);
    });
}

#[test]
fn added_rules_are_for_later_sockets() {
    isolated(|| {
        let host = Host::new();
        follow(&host, "use vma udp_receiver *:*");
        let early = host.any();
        host.engine.add_rules("use os udp_receiver *:*").unwrap();
        let error = host.engine.add_rules("use os").unwrap_err();
        assert_eq!(error.line, 1);
        let late = host.any();
        assert_eq!(early.reason(), Reason::Offloaded);
        assert_eq!(late.reason(), Reason::ReceiverRule);
        assert_eq!(late.snapshot(&host).unwrap().rule, 2);
        host.engine.network_changed(true);
        assert_eq!(early.reason(), Reason::Offloaded);
        let rules = host.statistics().rules().unwrap();
        assert_eq!(
            (rules.len(), rules[1].origin.as_str()),
            (2, "added by the program")
        );
    });
}
