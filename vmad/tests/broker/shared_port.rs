//! Sockets of several processes at one port (`SO_REUSEPORT`).

use std::thread;
use std::time::{Duration, Instant};

use testkit::{eventually, or_skip};

use crate::lab::{Lab, exchange_octets};
use crate::{SIGKILL, SIGSTOP};

const PORT: u16 = 7101;

#[test]
fn each_has_its_part_of_the_connections() {
    let lab = or_skip!(Lab::new(""));
    let (one, other) = (lab.sharing_server(PORT), lab.sharing_server(PORT));
    let mut streams = lab.streams(PORT, 200);
    // Those that live for a while have entries that nothing displaces.
    thread::sleep(Duration::from_secs(3));
    for stream in &mut streams {
        exchange_octets(stream, 20_000, 3).unwrap();
    }
    for server in [&one, &other] {
        let sockets = server.sockets();
        let streams = sockets.iter().filter(|it| it.offloaded).count();
        assert!(streams > 50, "{streams}: {sockets:?}");
        assert_eq!(server.kernel_packets(), 0, "{sockets:?}");
    }
    drop(streams);
    assert_eq!(lab.streams(PORT, 50).len(), 50);
}

#[test]
fn each_has_its_part_of_the_datagrams() {
    let lab = or_skip!(Lab::new(""));
    let (one, other) = (lab.sharing_server(PORT), lab.sharing_server(PORT));
    let both = [&one, &other];
    let have_joined = || {
        both.iter()
            .all(|it| it.sockets().iter().all(|it| it.offloaded))
    };
    assert!(eventually(Duration::from_secs(5), have_joined));
    let before: Vec<_> = both.iter().map(|it| it.kernel_packets()).collect();
    // Longer than a stranger is waited for.
    for _ in 0..200 {
        lab.datagrams(PORT, 20);
        thread::sleep(Duration::from_millis(10));
    }
    for (server, before) in both.iter().zip(before) {
        let sockets = server.sockets();
        assert!(sockets.iter().all(|it| it.offloaded), "{sockets:?}");
        assert_eq!(server.kernel_packets(), before, "{sockets:?}");
        assert!(server.packets() > 1000, "{sockets:?}");
    }
    drop(other);
    // What was its part is the other's.
    for _ in 0..20 {
        lab.datagrams(PORT, 5);
    }
}

#[test]
fn datagrams_beside_one_of_the_kernel_s_are_the_kernel_s() {
    let lab = or_skip!(Lab::new(""));
    let server = lab.sharing_server(PORT);
    lab.datagrams(PORT, 20);
    let _stranger = lab.strange_server(PORT);
    let is_kernels = || {
        let sockets = server.sockets();
        let mut datagrams = sockets
            .iter()
            .filter(|it| it.protocol == stats::PROTOCOL_UDP);
        datagrams.all(|it| !it.offloaded)
    };
    assert!(eventually(Duration::from_secs(20), is_kernels));
    for _ in 0..40 {
        lab.datagrams(PORT, 5);
    }
}

#[test]
fn who_is_killed_or_stopped_gets_no_more_of_them() {
    let lab = or_skip!(Lab::new(""));
    let mut victim = lab.sharing_server(PORT);
    let survivor = lab.sharing_server(PORT);
    let mut streams = lab.streams(PORT, 40);
    // Until its guardian is there.
    thread::sleep(Duration::from_secs(1));
    victim.process().signal(SIGKILL).unwrap();
    // Its own are reset, the other's go on.
    thread::sleep(Duration::from_millis(200));
    let begin = Instant::now();
    let alive = streams
        .iter_mut()
        .filter_map(|stream| exchange_octets(stream, 10, 1).ok());
    assert!((5..35).contains(&alive.count()));
    assert!(begin.elapsed() < Duration::from_secs(1));
    assert_eq!(lab.streams(PORT, 40).len(), 40);

    let mut stopped = lab.sharing_server(PORT);
    assert_eq!(lab.streams(PORT, 20).len(), 20);
    stopped.process().signal(SIGSTOP).unwrap();
    // Those whose first SYN goes to it try again.
    assert_eq!(lab.streams(PORT, 20).len(), 20);
    stopped.process().signal(SIGKILL).unwrap();
    assert_eq!(lab.streams(PORT, 20).len(), 20);
    assert_eq!(survivor.kernel_packets(), 0, "{:?}", survivor.sockets());
}

#[test]
fn beside_one_of_the_kernel_s_all_are_the_kernel_s() {
    let lab = or_skip!(Lab::new(""));
    let server = lab.sharing_server(PORT);
    let mut before = lab.streams(PORT, 20);
    let _stranger = lab.strange_server(PORT);
    let is_kernels = || {
        let sockets = server.sockets();
        sockets
            .iter()
            .any(|it| !it.offloaded && it.local.is_some_and(|it| it.port() == PORT))
    };
    assert!(
        eventually(Duration::from_secs(20), is_kernels),
        "{:?}",
        server.sockets()
    );
    for stream in &mut before {
        exchange_octets(stream, 2000, 9).unwrap();
    }
    assert_eq!(lab.streams(PORT, 40).len(), 40);
}
