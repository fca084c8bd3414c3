//! Packets redirected to a TAP device and back, for programs under the original library.

use std::net::UdpSocket;
use std::time::Duration;

use testkit::or_skip;

use crate::lab::Lab;

const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn a_flow_goes_to_the_tap_device_and_comes_back() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&["-v", "6"]);
    let mut program = lab.tap_program("0");
    assert!(
        program.stdout().contains("egress 0 flow 0"),
        "{}{}",
        program.stdout(),
        daemon.stdout()
    );
    let status = lab.status_with(&daemon, |status| {
        lab.counter(status, "flows redirected") == 2
    });
    assert!(status.contains("messages"), "{status}");

    let peer = lab.peer_socket();
    let arrives = |peer: &UdpSocket, port: u16| {
        peer.send_to(b"hello", ("10.77.0.1", port)).unwrap();
        peer.recv_from(&mut [0; 16]).is_ok()
    };
    // The program sends it back, past the kernel's sockets: the filters of the TAP device bring it
    // out.
    assert!(arrives(&peer, 4711), "{}", lab.filters());
    assert!(program.wait_for_output("datagram to port 4711", PATIENCE));
    // Another port in the same bucket is not its.
    assert!(!arrives(&peer, 4711 + 256));
    assert!(!program.stdout().contains("4967"), "{}", program.stdout());
    // What this host sends to itself arrives at its loopback interface.
    lab.local_socket()
        .send_to(b"hello", "10.77.0.1:4711")
        .unwrap();
    assert!(program.wait_for_output("4711\ndatagram to port 4711", PATIENCE));

    // A process that ends wants nothing any more.
    program.signal(9).unwrap();
    lab.status_with(&daemon, |status| {
        lab.counter(status, "flows redirected") == 0
    });
    assert_eq!(lab.filters(), "");
}

#[test]
fn who_may_not_administer_the_network_may_not_redirect() {
    let lab = or_skip!(Lab::new());
    let daemon = lab.daemon(&["-v", "6"]);
    let program = lab.tap_program("net_admin");
    assert!(
        program.stdout().contains("egress 1 flow 1"),
        "{}{}",
        program.stdout(),
        daemon.stdout()
    );
    let said = daemon.stdout();
    assert!(said.contains("it has no CAP_NET_ADMIN"), "{said}");
    assert_eq!(lab.filters(), "");
}
