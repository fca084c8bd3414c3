//! A broker that is started again, as by an update of its package.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{Accelerated, or_skip};

use crate::lab::{Lab, START};
use crate::{SIGKILL, SIGTERM, end};

#[test]
fn sockets_go_past_the_kernel_again_when_the_broker_is_back() {
    let mut lab = or_skip!(Lab::new("allow user 65533"));
    let servers = [lab.server(7001), lab.server_of(65533, 7002)];
    let ports = [7001, 7002];
    for signal in [SIGTERM, SIGKILL] {
        end(lab.broker.take().unwrap(), signal);
        for (server, port) in servers.iter().zip(ports) {
            await_offloaded(server, false);
            let before = server.kernel_packets();
            lab.datagrams(port, 20);
            // One that is opened meanwhile waits, too.
            drop(lab.streams(port, 3));
            assert!(server.kernel_packets() >= before + 40);
        }
        lab.start_broker();
        for (server, port) in servers.iter().zip(ports) {
            await_offloaded(server, true);
            let before = server.kernel_packets();
            lab.traffic(port, Duration::from_secs(1)).assert_whole();
            assert_eq!(server.kernel_packets(), before, "{:?}", server.sockets());
        }
    }
}

#[test]
fn a_broker_whose_socket_is_systemds_starts_when_a_program_asks() {
    let mut lab = or_skip!(Lab::without_broker(""));
    lab.start_activator();
    assert!(!lab.log().contains("started"), "{}", lab.log());
    let server = lab.server(7001);
    let started = || {
        let log = lab.log();
        let words = log.lines().filter_map(|line| line.strip_prefix("started "));
        words.map(|pid| pid.parse().unwrap()).collect::<Vec<i32>>()
    };
    for life in 1..=2 {
        await_offloaded(&server, true);
        lab.traffic(7001, Duration::from_secs(1)).assert_whole();
        let pids = started();
        assert_eq!(pids.len(), life, "{}", lab.log());
        // An update of its package: the socket stays, and the library asks again.
        let pid = Pid::from_raw(pids[life - 1]).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let ended = || lab.log().matches("[INFO  ] ended").count() == life;
        assert!(testkit::eventually(START, ended), "{}", lab.log());
        assert!(lab.socket().exists());
    }
}

/// Waits until the sockets that receive are, or are not.
#[track_caller]
fn await_offloaded(server: &Accelerated, offloaded: bool) {
    let are_so = || server.sockets().iter().all(|it| it.offloaded == offloaded);
    let sockets = server.sockets();
    assert!(testkit::eventually(START, are_so), "{sockets:?}");
}
