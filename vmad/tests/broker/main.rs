//! Several processes on one interface, by a broker.

mod lab;
mod restart;
mod rights;
mod shared_port;
mod status;
mod workers;

use std::thread;
use std::time::{Duration, Instant};

use lab::{Lab, Traffic};
use testkit::{Running, or_skip};

const SIGKILL: i32 = 9;
const SIGUSR2: i32 = 12;
const SIGTERM: i32 = 15;
const SIGSTOP: i32 = 19;

#[test]
fn each_of_several_processes_has_its_part_of_an_interface() {
    let lab = or_skip!(Lab::new(""));
    let servers: Vec<_> = (7001..7005).map(|port| lab.server(port)).collect();
    thread::scope(|scope| {
        for port in 7001..7005 {
            let lab = &lab;
            scope.spawn(move || lab.traffic(port, Duration::from_secs(1)).assert_whole());
        }
    });
    for server in &servers {
        let sockets = server.sockets();
        assert!(sockets.iter().all(|it| it.offloaded), "{sockets:?}");
        assert!(server.packets() > 100, "{sockets:?}");
        assert_eq!(server.kernel_packets(), 0, "{sockets:?}");
    }
    assert_eq!(lab.log().matches("came in").count(), 4, "{}", lab.log());
}

#[test]
fn who_is_killed_leaves_ports_to_others_and_them_undisturbed() {
    let lab = or_skip!(Lab::new(""));
    let _survivor = lab.server(7001);
    thread::scope(|scope| {
        let traffic = scope.spawn(|| lab.traffic(7001, Duration::from_secs(4)));
        for _ in 0..5 {
            let mut victim = lab.server(7002);
            let busy = scope.spawn(|| lab.traffic(7002, Duration::from_secs(2)));
            thread::sleep(Duration::from_millis(200));
            victim.process().signal(SIGKILL).unwrap();
            let seen = busy.join().unwrap();
            assert!(seen.datagrams > 0 && seen.octets > 0, "{seen:?}");
        }
        let seen = traffic.join().unwrap();
        assert_eq!(seen.streams_broken, 0, "{seen:?}");
        // While the kernel learns how many empty frames it takes on a machine that is busy.
        assert!(
            seen.datagrams_lost < 10 && seen.datagrams > 1000,
            "{seen:?}"
        );
    });
}

#[test]
fn a_stopped_process_holds_up_nobody() {
    let lab = or_skip!(Lab::new(""));
    let _server = lab.server(7001);
    let mut stopped = lab.server(7002);
    stopped.process().signal(SIGSTOP).unwrap();
    lab.flood(7002, 20_000);
    lab.traffic(7001, Duration::from_secs(1)).assert_whole();
    stopped.process().signal(SIGKILL).unwrap();
}

#[test]
fn when_the_broker_ends_sockets_go_on_with_the_kernel() {
    for signal in [SIGTERM, SIGKILL] {
        let mut lab = or_skip!(Lab::new(""));
        let server = lab.server(7001);
        thread::scope(|scope| {
            let broker = lab.broker.take().unwrap();
            let traffic = scope.spawn(|| lab.traffic(7001, Duration::from_secs(2)));
            thread::sleep(Duration::from_millis(500));
            end(broker, signal);
            let seen = traffic.join().unwrap();
            assert_eq!(seen.streams_broken, 0, "{seen:?}");
            assert!(seen.datagrams_lost < 10, "{seen:?}");
        });
        assert!(server.kernel_packets() > 0);
    }
}

#[test]
fn users_are_served_as_the_policy_says() {
    let lab = or_skip!(Lab::new("allow user 65533"));
    let served = lab.server_of(65533, 7001);
    lab.traffic(7001, Duration::from_secs(1)).assert_whole();
    let sockets = served.sockets();
    assert!(sockets.iter().all(|it| it.offloaded), "{sockets:?}");
    assert_eq!(served.kernel_packets(), 0, "{sockets:?}");
    let other = lab.server_of(65532, 7002);
    lab.datagrams(7002, 50);
    assert_eq!(other.packets(), 0);
    assert!(
        lab.log().contains("user 65532 may not have vb"),
        "{}",
        lab.log()
    );
}

/// The child gives the socket back to the kernel, for its parent.
#[test]
fn a_child_of_vfork_speaks_for_its_parent() {
    let lab = or_skip!(Lab::new(""));
    let mut server = lab.server(7001);
    lab.datagrams(7001, 20);
    assert_eq!(server.kernel_packets(), 0);
    server.process().signal(SIGUSR2).unwrap();
    thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    lab.datagrams(7001, 20);
    assert!(begin.elapsed() < Duration::from_secs(10), "some were lost");
    assert!(server.kernel_packets() > 0, "{:?}", server.sockets());
}

/// The broker repairs sockets for a program without the right, which needs that to the end.
#[test]
fn connections_of_those_without_rights_outlive_the_broker() {
    let mut lab = or_skip!(Lab::new("allow user 65533"));
    let server = lab.server_of(65533, 7001);
    thread::scope(|scope| {
        let broker = lab.broker.take().unwrap();
        let traffic = scope.spawn(|| lab.traffic(7001, Duration::from_secs(3)));
        thread::sleep(Duration::from_millis(500));
        end(broker, SIGTERM);
        let seen = traffic.join().unwrap();
        assert_eq!(seen.streams_broken, 0, "{seen:?}");
        assert!(seen.datagrams_lost < 10, "{seen:?}");
    });
    assert!(server.kernel_packets() > 0);
}

#[test]
fn what_is_no_question_costs_its_sender_only() {
    let lab = or_skip!(Lab::new(""));
    let _server = lab.server(7001);
    lab.babble();
    lab.traffic(7001, Duration::from_secs(1)).assert_whole();
}

#[test]
fn an_interface_is_closed_when_nobody_has_it() {
    let lab = or_skip!(Lab::new(""));
    let mut server = lab.server(7001);
    assert!(lab.has_program());
    server.process().signal(SIGTERM).unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while lab.has_program() {
        assert!(Instant::now() < until, "{}", lab.log());
        thread::sleep(Duration::from_millis(100));
    }
    // And opened again.
    let _again = lab.server(7001);
    lab.traffic(7001, Duration::from_secs(1)).assert_whole();
}

fn end(broker: Running, signal: i32) {
    broker.stop(signal, Duration::from_secs(20)).unwrap();
}

impl Traffic {
    #[track_caller]
    fn assert_whole(&self) {
        assert!(self.datagrams > 50 && self.octets > 10_000, "{self:?}");
        assert_eq!(
            (self.datagrams_lost, self.streams_broken),
            (0, 0),
            "{self:?}"
        );
    }
}
