//! A broker that is started again, as by an update of its package.

use std::time::Duration;

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

/// Waits until the sockets that receive are, or are not.
#[track_caller]
fn await_offloaded(server: &Accelerated, offloaded: bool) {
    let are_so = || server.sockets().iter().all(|it| it.offloaded == offloaded);
    let sockets = server.sockets();
    assert!(testkit::eventually(START, are_so), "{sockets:?}");
}
