//! Flows of sockets while interfaces and addresses come and go.

use std::net::{IpAddr, Ipv4Addr, UdpSocket as KernelSocket};
use std::os::fd::AsRawFd;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use engine::{Reason, RecvOutcome, SendOutcome};

use crate::support::calls::{Receiving, receive, send};
use crate::support::device::Device;
use crate::support::host::Host;
use crate::support::isolation::{isolated, with_addresses};
use crate::support::network::interface;
use crate::support::{FIRST_LINK, OUR_IP, PEER, SECOND_IP, SECOND_LINK};

/// Flows of each interface.
fn flows(host: &Host<Device>) -> [usize; 2] {
    [FIRST_LINK, SECOND_LINK].map(|link| host.device.wire(link).flows().len())
}

#[test]
fn an_interface_that_does_not_open_is_tried_again_when_the_network_changes() {
    isolated(|| {
        let host = Host::new();
        for link in [FIRST_LINK, SECOND_LINK] {
            host.device.refuse_open(link, true);
        }
        let (first, second) = (host.any(), host.any());
        assert_eq!(first.reason(), Reason::OpenFailed);
        assert_eq!(second.reason(), Reason::OpenFailed);
        assert_eq!(host.device.opens(), 2, "once an interface");
        assert!(!host.engine.has_open_interface());
        host.device.refuse_open(SECOND_LINK, false);
        host.engine.network_changed(false);
        assert_eq!(first.reason(), Reason::OpenFailed, "routes do not matter");
        host.engine.network_changed(true);
        assert!(host.engine.has_open_interface());
        for socket in [&first, &second] {
            assert_eq!(socket.reason(), Reason::Offloaded);
        }
        assert_eq!(flows(&host), [0, 2]);
        host.device.refuse_open(FIRST_LINK, false);
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [2, 2]);
    });
}

#[test]
fn a_flow_that_the_steering_refuses_has_its_reason() {
    isolated(|| {
        let host = Host::new();
        host.device.wire(FIRST_LINK).refuse_flows(true);
        let socket = host.any();
        assert_eq!(socket.reason(), Reason::Offloaded, "the other one has it");
        host.device.wire(SECOND_LINK).refuse_flows(true);
        let refused = host.any();
        assert_eq!(refused.reason(), Reason::SteeringFailed);
        // A refused flow leaves nothing behind that would keep others out.
        for link in [FIRST_LINK, SECOND_LINK] {
            host.device.wire(link).refuse_flows(false);
        }
        host.engine.network_changed(true);
        for socket in [&socket, &refused] {
            assert_eq!(socket.reason(), Reason::Offloaded);
        }
        assert_eq!(flows(&host), [2, 2]);
    });
}

#[test]
fn addresses_that_come_and_go_take_flows_with_them() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.arrives(PEER, socket.at(OUR_IP), b"in the ring");
        host.network
            .change_interfaces(|interfaces| interfaces[0].addresses.clear());
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [0, 1]);
        // What had been received before is delivered.
        assert_eq!(receive(&socket, 0), Ok(b"in the ring".to_vec()));
        let new = Ipv4Addr::new(10, 0, 0, 50);
        host.network.change_interfaces(|interfaces| {
            interfaces[0].addresses = vec![new.into(), OUR_IP.into()];
        });
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [1, 1]);
        assert_eq!(
            host.device.wire(FIRST_LINK).addresses(),
            [OUR_IP, new].map(IpAddr::from)
        );
        host.network
            .change_interfaces(|interfaces| interfaces[0].addresses.truncate(1));
        host.engine.network_changed(true);
        assert_eq!(
            host.device.wire(FIRST_LINK).addresses(),
            [IpAddr::from(new)]
        );
        host.network
            .set_interfaces(vec![interface(SECOND_LINK, SECOND_IP)]);
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [0, 1]);
        host.network.set_interfaces(Vec::new());
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [0, 0]);
        assert_eq!(socket.reason(), Reason::AddressNotLocal);
    });
}

#[test]
fn an_address_listed_twice_is_one_address() {
    isolated(|| {
        let host = Host::new();
        // 10.0.0.1/24 and 10.0.0.1/16 beside each other, which the kernel allows.
        host.network
            .change_interfaces(|interfaces| interfaces[0].addresses.push(OUR_IP.into()));
        let socket = host.any();
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(flows(&host), [1, 1]);
    });
}

#[test]
fn an_interface_that_is_down_is_not_opened_and_an_open_one_stays() {
    isolated(|| {
        let host = Host::new();
        host.network
            .change_interfaces(|interfaces| interfaces[0].up = false);
        let socket = host.any();
        assert_eq!(flows(&host), [0, 1]);
        host.network.change_interfaces(|interfaces| {
            (interfaces[0].up, interfaces[1].up) = (true, false);
        });
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [1, 1]);
        assert_eq!(socket.reason(), Reason::Offloaded);
    });
}

#[test]
fn what_the_sender_finds_out_about_the_network_reaches_the_sockets() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        host.network
            .change_interfaces(|interfaces| interfaces.truncate(1));
        host.engine.follow_network();
        assert_eq!(flows(&host), [1, 1]);
        host.network
            .announce(engine::NetworkChange::everything(true));
        host.engine.follow_network();
        assert_eq!(flows(&host), [1, 0]);
        drop(socket);
    });
}

#[test]
fn a_socket_receives_from_any_number_of_interfaces() {
    isolated(|| {
        let host = Host::new();
        let links = FIRST_LINK..FIRST_LINK + 20;
        let address = |link: u32| Ipv4Addr::from(0x0a00_0001 + ((link - FIRST_LINK) << 16));
        let interfaces = links.clone().map(|link| interface(link, address(link)));
        host.network.set_interfaces(interfaces.collect());
        let socket = host.any();
        for _ in 0..2 {
            for link in links.clone() {
                let to = socket.at(address(link));
                let payload = link.to_ne_bytes();
                let datagram = crate::support::frame(PEER, to, &payload);
                host.device.wire(link).inject(datagram);
                assert_eq!(receive(&socket, 0), Ok(payload.to_vec()), "link {link}");
            }
            // Fewer, and all of them again.
            host.network
                .change_interfaces(|interfaces| interfaces.truncate(3));
            host.engine.network_changed(true);
            let interfaces = links.clone().map(|link| interface(link, address(link)));
            host.network.set_interfaces(interfaces.collect());
            host.engine.network_changed(true);
        }
    });
}

#[test]
fn nobody_waits_for_an_interface_that_another_thread_opens() {
    isolated(|| {
        let host = Host::new();
        host.device.refuse_open(FIRST_LINK, true);
        let socket: &'static _ = Box::leak(Box::new(host.any()));
        assert_eq!(flows(&host), [0, 1]);
        // That to the peer is the first interface's.
        let to_kernel = |reason| SendOutcome::Kernel(reason);
        assert_eq!(
            send(socket, Some(PEER), b"x"),
            to_kernel(Reason::OpenFailed)
        );
        host.device.refuse_open(FIRST_LINK, false);

        let (engine, wire) = (host.engine, host.device.wire(SECOND_LINK));
        host.device.during_next_open(move || {
            let (done, finished) = mpsc::channel();
            thread::spawn(move || {
                // In a thread of its own: whatever waits here, waits for ever.
                assert_eq!(send(socket, Some(PEER), b"x"), to_kernel(Reason::Opening));
                wire.inject(crate::support::frame(PEER, socket.at(SECOND_IP), b"in"));
                assert_eq!(receive(socket, 0), Ok(b"in".to_vec()));
                let other = KernelSocket::bind("127.0.0.1:0").unwrap();
                engine.socket_opened(other.as_raw_fd(), engine::Family::Inet, false);
                engine.addresses_changed(engine.udp(other.as_raw_fd()).unwrap());
                engine.descriptor_closes(other.as_raw_fd());
                engine.refresh_gauges();
                assert!(engine.has_open_interface());
                done.send(()).unwrap();
            });
            let limit = Duration::from_secs(20);
            finished.recv_timeout(limit).expect("nothing waits");
        });
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [1, 1]);
        assert_eq!(send(socket, Some(PEER), b"x"), SendOutcome::Done(1));
    });
}

#[test]
fn who_needs_an_interface_for_a_socket_waits_for_it() {
    isolated(|| {
        let host = Host::new();
        let (early, late) = (host.unbound(), host.unbound());
        let late: &'static _ = Box::leak(Box::new(late));
        let (bound, is_bound) = mpsc::channel();
        host.device.during_next_open(move || {
            thread::spawn(move || {
                late.bind("0.0.0.0:0");
                bound.send(late.reason()).unwrap();
            });
            thread::sleep(Duration::from_millis(100));
        });
        early.bind("0.0.0.0:0");
        assert_eq!(early.reason(), Reason::Offloaded);
        let limit = Duration::from_secs(20);
        assert_eq!(is_bound.recv_timeout(limit), Ok(Reason::Offloaded));
        assert_eq!(host.device.opens(), 2, "each once");
        assert_eq!(flows(&host), [2, 2]);
    });
}

#[test]
fn a_thread_that_waits_in_the_kernel_learns_of_what_came_by_a_flow() {
    with_addresses(|| {
        let host = Host::new();
        host.network.set_interfaces(Vec::new());
        let socket: &'static _ = Box::leak(Box::new(host.any()));
        assert_eq!(socket.reason(), Reason::AddressNotLocal);
        let first = interface(FIRST_LINK, OUR_IP);
        host.network.set_interfaces(vec![first]);
        let wire = host.device.wire(FIRST_LINK);
        let meanwhile = Arc::clone(&wire);
        wire.during_next_flow(move || {
            let outcome = Receiving::begin(socket, 0).attempt(&mut [0; 8]);
            assert!(matches!(outcome, RecvOutcome::Kernel));
            meanwhile.inject(crate::support::frame(PEER, socket.at(OUR_IP), b"in"));
        });
        host.engine.network_changed(true);
        assert_eq!(
            (socket.reason(), wire.flows()),
            (Reason::AddressNotLocal, vec![])
        );
        assert_eq!(host.count_of(Reason::Offloaded), 0);
        let mut buffer = [0; 8];
        let limit = Duration::from_secs(20);
        socket.kernel.set_read_timeout(Some(limit)).unwrap();
        let (len, from) = socket.kernel.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..len], from), (&b"in"[..], PEER.into()));
        host.engine.network_changed(true);
        assert_eq!(wire.flows(), []);
    });
}
