//! Processes with the library, whose connections are found in their statistics.

use std::io::{ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpListener};
use std::path::Path;
use std::time::Duration;

use testkit::{Pair, Running, or_skip, preloaded};

use crate::lab::{Lab, Outcome, Peers};
use crate::{AT_ONCE, SIGKILL};

const CONNECTIONS: usize = 1000;
const START: Duration = Duration::from_secs(60);
/// How many connections are accepted, and how many wait for that.
pub(crate) const ACCEPTED: usize = 50;
pub(crate) const WAITING: usize = 50;

/// A program with TCP past the kernel, and without a guardian.
fn accelerated(lab: &Lab, case: &str, address: SocketAddr, count: usize) -> Running {
    running(lab, case, address, count, &[("VMA_GUARDIAN", "0")])
}

/// The same with this environment.
pub(crate) fn running(
    lab: &Lab,
    case: &str,
    address: SocketAddr,
    count: usize,
    environment: &[(&str, &str)],
) -> Running {
    let program = testkit::c_program("tcp_safety");
    let mut command = preloaded(&lab.pair().a, &program).unwrap();
    command
        .env("VMA_STATS_SHMEM_DIR", lab.directory())
        .env("VMA_TRACELEVEL", "4")
        .envs(environment.iter().copied())
        .args([
            case,
            &ipv4(address).to_string(),
            &address.port().to_string(),
        ])
        .arg(count.to_string());
    if address.is_ipv6() {
        command.env("CASE_OVER_IPV6", "real");
    }
    Running::start(command).unwrap()
}

/// As the program is told, which puts the other in its place (tests/c/family.h).
fn ipv4(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V6(ip) if ip == Pair::IPV6_ADDRESS_B => Pair::ADDRESS_B.into(),
        ip => ip,
    }
}

pub(crate) fn wait_for(process: &mut Running, word: &str) {
    let is_there = process.wait_for_output(word, START);
    assert!(is_there, "{}{}", process.stdout(), process.stderr());
}

fn holding(lab: &Lab, peers: &mut Peers, count: usize) -> Running {
    let mut client = accelerated(lab, "hold", peers.address(), count);
    wait_for(&mut client, "ready");
    peers.accept(count);
    let log = client.stderr();
    assert!(log.contains("past the kernel by va"), "{log}");
    client
}

/// The daemon knows the process.
pub(crate) fn watches(lab: &Lab, daemon: &Running, process: &Running) {
    let line = format!("{:>7}      ?            0  statistics\n", process.pid());
    lab.status_with(daemon, |status| status.contains(&line));
}

#[test]
fn peers_of_connections_past_the_kernel_are_reset_at_once() {
    let lab = or_skip!(Lab::alone());
    let reset = || {
        let daemon = lab.daemon(&["-v", "5"]);
        let mut peers = lab.listen();
        let client = holding(&lab, &mut peers, CONNECTIONS);
        watches(&lab, &daemon, &client);
        client.signal(SIGKILL).unwrap();
        let Outcome { reset, last } = peers.wait_for_resets(Duration::from_secs(5));
        if reset < CONNECTIONS || last > AT_ONCE {
            return Err(format!(
                "{reset} were reset, the last after {last:?}\n{}",
                daemon.stdout()
            ));
        }
        eprintln!("{CONNECTIONS} peers were reset within {last:?}");
        // The numbers were right: nobody had to be asked.
        let status = lab.status(&daemon);
        assert_eq!(lab.counter(&status, "probes sent"), 0, "{status}");
        Ok(())
    };
    // Other tests may need the CPUs at that moment.
    let attempts = (0..3).map(|_| testkit::retry_if_paused(&reset));
    let failures: Vec<String> = attempts.map_while(Result::err).collect();
    assert!(failures.len() < 3, "{failures:#?}");
}

/// The same over IPv6.
#[test]
fn peers_over_ipv6_are_reset() {
    let lab = or_skip!(Lab::over_ipv6());
    let daemon = lab.daemon(&["-v", "5"]);
    let mut peers = lab.listen();
    let client = holding(&lab, &mut peers, 20);
    watches(&lab, &daemon, &client);
    client.signal(SIGKILL).unwrap();
    let Outcome { reset, last } = peers.wait_for_resets(Duration::from_secs(5));
    assert_eq!(reset, 20, "{last:?} {}", daemon.stdout());
    let status = lab.status(&daemon);
    assert_eq!(lab.counter(&status, "probes sent"), 0, "{status}");
    assert_eq!(lab.counter(&status, "resets sent"), 20, "{status}");
}

/// The same at link-local addresses, which the statistics have with their interface.
#[test]
fn peers_at_link_local_addresses_are_reset() {
    const CLIENT: &str = "import socket, time\n\
        kept = [socket.create_connection(('fe80::2%va', 7955)) for _ in range(5)]\n\
        print('ready', flush=True); time.sleep(60)";
    let lab = or_skip!(Lab::over_ipv6());
    let daemon = lab.daemon(&["-v", "5"]);
    let listener = lab.pair().b.enter(|| {
        let on_link = SocketAddrV6::new("fe80::2".parse().unwrap(), 7955, 0, 23);
        TcpListener::bind(on_link).unwrap()
    });
    let mut command = preloaded(&lab.pair().a, Path::new("python3")).unwrap();
    command
        .env("VMA_STATS_SHMEM_DIR", lab.directory())
        .env("VMA_GUARDIAN", "0")
        .args(["-c", CLIENT]);
    let mut client = Running::start(command).unwrap();
    wait_for(&mut client, "ready");
    watches(&lab, &daemon, &client);
    let peers: Vec<_> = (0..5).map(|_| listener.accept().unwrap().0).collect();
    client.signal(SIGKILL).unwrap();
    for mut peer in peers {
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let error = peer.read(&mut [0]).unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::ConnectionReset,
            "{}",
            daemon.stdout()
        );
    }
    let status = lab.status(&daemon);
    assert_eq!(lab.counter(&status, "resets sent"), 5, "{status}");
}

#[test]
fn peers_of_a_listener_are_reset_whether_accepted_or_not() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&["-v", "5"]);
    let address = SocketAddr::from((Pair::ADDRESS_A, 7901));
    let mut server = accelerated(&lab, "listen", address, ACCEPTED);
    wait_for(&mut server, "listens");
    let mut peers = lab.connect(address, ACCEPTED + WAITING);
    wait_for(&mut server, "ready");
    watches(&lab, &daemon, &server);
    server.signal(SIGKILL).unwrap();
    let Outcome { reset, last } = peers.wait_for_resets(Duration::from_secs(5));
    assert_eq!(reset, ACCEPTED + WAITING, "{last:?} {}", daemon.stdout());
}

#[test]
fn without_the_daemon_peers_learn_when_they_send() {
    let lab = or_skip!(Lab::new());
    let mut peers = lab.listen();
    let client = holding(&lab, &mut peers, 10);
    client.signal(SIGKILL).unwrap();
    assert_eq!(peers.wait_for_resets(Duration::from_millis(500)).reset, 0);
    // The interface is the kernel's again, which has no such connection.
    peers.send();
    let outcome = peers.wait_for_resets(Duration::from_secs(5));
    assert_eq!(outcome.reset, 10);
}

/// The segment of another process says that it has the connection of a live one.
#[test]
fn a_forged_segment_resets_nobody_else() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&["-v", "6"]);
    let mut peers = lab.listen();
    let client = holding(&lab, &mut peers, 1);
    watches(&lab, &daemon, &client);
    for (local, peer) in peers.connections() {
        let forger = lab.publisher_of(&format!("{local} {peer}"));
        watches(&lab, &daemon, &forger);
        forger.signal(SIGKILL).unwrap();
    }
    let status = lab.status_with(&daemon, |status| {
        lab.counter(status, "connections spared") == 1
    });
    assert_eq!(lab.counter(&status, "probes sent"), 0, "{status}");
    assert_eq!(lab.counter(&status, "resets sent"), 0, "{status}");
    assert_eq!(peers.wait_for_resets(Duration::from_millis(300)).reset, 0);
    // Its own end is believed.
    client.signal(SIGKILL).unwrap();
    let reset = peers.wait_for_resets(Duration::from_secs(5)).reset;
    assert_eq!(reset, 1, "{}", daemon.stdout());
}
