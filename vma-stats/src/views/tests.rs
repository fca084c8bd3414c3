//! The views of the original, as they are printed.

use std::time::{Duration, UNIX_EPOCH};

use stats::{
    GroupSnapshot, MultiplexerSnapshot, PROTOCOL_TCP, PROTOCOL_UDP, PoolSnapshot, ProcessInfo,
    QueueSnapshot, RingSnapshot, SocketSnapshot, Statistics, TcpSnapshot,
};

use super::{Table, basic, full, groups, medium, netstat};
use crate::rate::Rate;
use crate::sample::Report;

/// Something in every section that a view shows.
fn statistics() -> Statistics {
    let address = |text: &str| Some(text.parse().unwrap());
    let busy = SocketSnapshot {
        fd: 14,
        protocol: PROTOCOL_UDP,
        offloaded: true,
        inode: 33_679_757,
        local: address("10.1.2.3:11111"),
        peer: address("10.1.2.9:5000"),
        rx_thread: 2378,
        tx_thread: 2379,
        rx_packets: 140_479_898,
        rx_bytes: 280_959_796,
        rx_eagain: 12,
        rx_errors: 1,
        rx_poll_hit: 276_077,
        rx_poll_miss: 10,
        rx_queue_packets: 1,
        rx_queue_packets_max: 16,
        rx_queue_bytes: 1470,
        rx_queue_bytes_max: 23_520,
        rx_queue_bytes_limit: 16_777_216,
        rx_dropped_packets: 3,
        rx_dropped_bytes: 4410,
        rx_os_packets: 22,
        rx_os_bytes: 4096,
        tx_packets: 5_000_000_000,
        tx_bytes: 10_000_000_000,
        tx_eagain: 2,
        tx_os_packets: 9,
        tx_os_bytes: 2048,
        tx_os_errors: 1,
        ..SocketSnapshot::default()
    };
    let idle = SocketSnapshot {
        fd: 15,
        protocol: PROTOCOL_UDP,
        nonblocking: true,
        mc_loop_off: true,
        inode: 33_679_919,
        local: address("0.0.0.0:7001"),
        mc_interface: address("10.1.2.3:0"),
        ..SocketSnapshot::default()
    };
    let connection = TcpSnapshot {
        fd: 16,
        state: 1,
        inode: 77,
        local: address("10.1.2.3:44522"),
        peer: address("10.1.2.9:443"),
        tx_queue_bytes: 512,
        ..TcpSnapshot::default()
    };
    let other = SocketSnapshot {
        fd: 17,
        protocol: PROTOCOL_TCP,
        tcp_state: 10,
        inode: 78,
        local: address("10.1.2.3:80"),
        tx_retransmits: 4,
        ..SocketSnapshot::default()
    };
    // Each accelerated connection is in two sections.
    let connected = SocketSnapshot {
        fd: connection.fd,
        protocol: PROTOCOL_TCP,
        offloaded: true,
        inode: connection.inode,
        local: connection.local,
        peer: connection.peer,
        ..SocketSnapshot::default()
    };
    let member = |fd, group: &str| GroupSnapshot {
        fd,
        group: address(group),
        ..GroupSnapshot::default()
    };
    let calls = |kind: &str, epfd| MultiplexerSnapshot {
        kind: kind.to_owned(),
        epfd,
        thread: 2378,
        poll_hit: 100,
        poll_miss: 25,
        timeouts: 7,
        errors: 1,
        rx_ready: 30_372,
        rx_os_ready: 15_185,
        ..MultiplexerSnapshot::default()
    };
    Statistics {
        sockets: vec![busy, idle, connected, other],
        tcp_connections: vec![connection],
        groups: vec![
            member(15, "224.4.1.3:0"),
            member(14, "224.4.1.2:0"),
            member(14, "224.4.1.3:0"),
        ],
        multiplexers: vec![
            calls("select", -1),
            calls("epoll", 9),
            MultiplexerSnapshot {
                kind: "poll".to_owned(),
                ..MultiplexerSnapshot::default()
            },
        ],
        queues: vec![QueueSnapshot {
            ifname: "ens1f0".to_owned(),
            buffers: 500,
            rx_dropped: 6,
            rx_drained_max: 511,
            ..QueueSnapshot::default()
        }],
        rings: vec![RingSnapshot {
            ifname: "ens1f0".to_owned(),
            rx_packets: 786_133,
            rx_bytes: 1_221_583_872,
            tx_packets: 20,
            tx_bytes: 4096,
            rx_wakeups: 78_613,
            ..RingSnapshot::default()
        }],
        pools: vec![PoolSnapshot {
            frames: 199_488,
            free: 168_000,
            exhausted: 2,
            ..PoolSnapshot::default()
        }],
        ..Statistics::default()
    }
}

fn report(rate: Rate) -> Report {
    Report {
        rate,
        time: UNIX_EPOCH,
        values: statistics(),
        overflowed_sockets: 0,
    }
}

fn both(view: impl Fn(&Report) -> String) -> String {
    let totals = view(&report(Rate::Total));
    totals + &view(&report(Rate::Over(Duration::from_secs(2))))
}

#[test]
fn view_1_is_the_original_s() {
    let text = both(|report| Table::new(basic::view(false)).format(report));
    insta::assert_snapshot!(text);
}

#[test]
fn view_2_is_the_original_s() {
    insta::assert_snapshot!(both(|report| Table::new(medium::view()).format(report)));
}

#[test]
fn view_3_is_the_original_s() {
    insta::assert_snapshot!(both(full::format));
}

#[test]
fn view_4_is_the_original_s() {
    insta::assert_snapshot!(groups::format(&report(Rate::Total)));
}

/// Of a process that has ended: nothing of the kernel's stands beside it.
#[test]
fn view_5_is_the_original_s() {
    let process = ProcessInfo {
        pid: 4_194_999,
        start_time_ticks: 1,
        program: "feed-handler".to_owned(),
        library_version: "0.1.0".to_owned(),
        layout_major: 1,
        layout_minor: 5,
    };
    let text = netstat::heading() + &netstat::format(&process, &statistics());
    insta::assert_snapshot!(text);
}
