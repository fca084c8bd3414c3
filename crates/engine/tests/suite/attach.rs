//! Which flows sockets have, following the kernel's sockets and the network.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use dev_core::{Flow, Protocol};
use engine::{Reason, RecvOutcome, Settings};

use crate::support::calls::{Receiving, receive};
use crate::support::host::{Host, Socket, settings};
use crate::support::isolation::{isolated, with_addresses};
use crate::support::{FIRST_LINK, OUR_IP, PEER, SECOND_IP, SECOND_LINK, device::Device};

fn flow(local: SocketAddrV4, peer: Option<SocketAddrV4>) -> Flow {
    Flow {
        protocol: Protocol::Udp,
        local: local.into(),
        peer: peer.map(Into::into),
    }
}

fn flows(host: &Host<Device>) -> [Vec<Flow>; 2] {
    [FIRST_LINK, SECOND_LINK].map(|link| host.device.wire(link).flows())
}

#[test]
fn a_socket_on_any_address_has_one_flow_on_each_interface() {
    isolated(|| {
        let host = Host::new();
        let third = Ipv4Addr::new(10, 1, 0, 99);
        host.network
            .change_interfaces(|interfaces| interfaces[1].addresses.push(third.into()));
        let socket = host.any();
        let any = flow(socket.at(Ipv4Addr::UNSPECIFIED), None);
        assert_eq!(flows(&host), [vec![any], vec![any]]);
        let addresses = |link| host.device.wire(link).addresses();
        assert_eq!(addresses(FIRST_LINK), [IpAddr::from(OUR_IP)]);
        assert_eq!(addresses(SECOND_LINK), [SECOND_IP, third].map(IpAddr::from));
        assert_eq!(socket.reason(), Reason::Offloaded);
        host.arrives(PEER, socket.at(OUR_IP), b"first");
        assert_eq!(receive(&socket, 0), Ok(b"first".to_vec()));
        let frame = crate::support::frame(PEER, socket.at(third), b"second");
        host.device.wire(SECOND_LINK).inject(frame);
        assert_eq!(receive(&socket, 0), Ok(b"second".to_vec()));
        drop(socket);
        assert_eq!(flows(&host), [vec![], vec![]]);
    });
}

#[test]
fn a_bound_socket_has_the_flow_of_its_address() {
    with_addresses(|| {
        let host = Host::new();
        let socket = host.unbound();
        assert_eq!(socket.reason(), Reason::NotBound);
        assert_eq!(host.device.opens(), 0, "nobody needs a device yet");
        socket.bind("10.1.0.1:0");
        assert_eq!(
            flows(&host),
            [vec![], vec![flow(socket.at(SECOND_IP), None)]]
        );
        assert_eq!(host.device.opens(), 1);
        let counted = socket.snapshot(&host).unwrap();
        assert_eq!(counted.local, Some(socket.at(SECOND_IP).into()));
        assert!(counted.offloaded && counted.peer.is_none());
        assert_eq!(counted.protocol, stats::PROTOCOL_UDP);
        assert!(counted.inode > 0);
    });
}

#[test]
fn connect_narrows_the_flows_and_disconnect_widens_them() {
    with_addresses(|| {
        let host = Host::new();
        let socket = host.bound("0.0.0.0:5353");
        // Came before the connect(2), from somebody else: still to be read, as in the kernel.
        let stranger = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 3), 3);
        host.arrives(stranger, socket.at(OUR_IP), b"early");
        socket.connect(PEER);
        let exact = flow(socket.at(OUR_IP), Some(PEER));
        assert_eq!(flows(&host), [vec![exact], vec![]]);
        assert_eq!(receive(&socket, 0), Ok(b"early".to_vec()));
        let counted = socket.snapshot(&host).unwrap();
        assert_eq!(counted.peer, Some(PEER.into()));
        host.arrives(stranger, socket.at(OUR_IP), b"not for us");
        host.arrives(PEER, socket.at(OUR_IP), b"for us");
        assert_eq!(receive(&socket, 0), Ok(b"for us".to_vec()));
        let other = SocketAddrV4::new(*PEER.ip(), 1);
        socket.connect(other);
        let exact = flow(socket.at(OUR_IP), Some(other));
        assert_eq!(flows(&host), [vec![exact], vec![]]);
        socket.disconnect();
        let wide = flow(socket.at(Ipv4Addr::UNSPECIFIED), None);
        assert_eq!(flows(&host), [vec![wide], vec![wide]]);
        assert_eq!(socket.snapshot(&host).unwrap().peer, None);
        host.arrives(stranger, socket.at(OUR_IP), b"again");
        assert_eq!(receive(&socket, 0), Ok(b"again".to_vec()));
    });
}

#[test]
fn disconnecting_a_socket_whose_port_the_kernel_chose_gives_the_port_back() {
    with_addresses(|| {
        let host = Host::new();
        let socket = host.any();
        socket.connect(PEER);
        assert_eq!(flows(&host)[0].len(), 1);
        socket.disconnect();
        // Another process may have the port from here on.
        assert_eq!(socket.port(), 0);
        assert_eq!(flows(&host), [vec![], vec![]]);
        assert_eq!(socket.reason(), Reason::NotBound);
        socket.bind("0.0.0.0:0");
        assert_eq!(flows(&host).map(|flows| flows.len()), [1, 1]);
        assert_eq!(socket.reason(), Reason::Offloaded);
    });
}

#[test]
fn a_connected_socket_beside_a_server_gets_its_peer_only() {
    with_addresses(|| {
        let host = Host::new();
        let server = host.unbound();
        server.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
        server.bind("10.0.0.1:0");
        let session = host.unbound();
        session.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
        // The kernel binds and connects; the engine learns of both at once.
        let local = server.at(OUR_IP);
        let address = crate::support::host::sockaddr(libc::AF_INET, local);
        // SAFETY: the address is a readable sockaddr_in.
        let bound = unsafe { libc::bind(session.fd(), (&raw const address).cast(), 16) };
        assert_eq!(bound, 0);
        session.connect(PEER);
        assert_eq!(
            flows(&host)[0],
            [flow(local, None), flow(local, Some(PEER))]
        );
        let stranger = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 3), 3);
        host.arrives(PEER, local, b"session");
        host.arrives(stranger, local, b"server");
        assert_eq!(receive(&server, 0), Ok(b"server".to_vec()));
        assert_eq!(receive(&session, 0), Ok(b"session".to_vec()));
    });
}

#[test]
fn sockets_that_share_a_port_are_left_to_the_kernel() {
    isolated(|| {
        let host = Host::new();
        let share = |socket: &Socket<Device>| {
            socket.set_option(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1);
        };
        let (first, second) = (host.unbound(), host.unbound());
        share(&first);
        share(&second);
        first.bind("0.0.0.0:0");
        assert_eq!(first.reason(), Reason::Offloaded);
        second.bind(&format!("0.0.0.0:{}", first.port()));
        assert_eq!(first.reason(), Reason::PortShared);
        assert_eq!(second.reason(), Reason::PortShared);
        assert_eq!(flows(&host), [vec![], vec![]]);
        assert_eq!(host.count_of(Reason::PortShared), 2);
        // For good: which of them gets a packet was the kernel's choice before, too.
        host.engine.network_changed(true);
        host.engine.addresses_changed(first.ours());
        assert_eq!(first.reason(), Reason::PortShared);
        drop(second);
        assert_eq!(first.reason(), Reason::PortShared);
        let outcome = Receiving::begin(&first, 0).attempt(&mut [0; 8]);
        assert!(matches!(outcome, RecvOutcome::Kernel));
    });
}

#[test]
fn reuse_port_changes_nothing_for_a_socket_that_is_alone() {
    isolated(|| {
        let host = Host::new();
        let socket = host.any();
        socket.set_option(libc::SOL_SOCKET, libc::SO_REUSEPORT, 1);
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(flows(&host).map(|flows| flows.len()), [1, 1]);
    });
}

#[test]
fn reasons_of_sockets_that_cannot_be_accelerated() {
    isolated(|| {
        let host = Host::new();
        let loopback = host.bound("127.0.0.1:0");
        assert_eq!(loopback.reason(), Reason::Loopback);
        let seen = loopback.snapshot(&host).unwrap();
        assert_eq!((seen.offloaded, seen.reason), (false, 4));
        host.network.change_interfaces(|interfaces| {
            interfaces
                .iter_mut()
                .for_each(|it| it.obstacle = "a bridge".to_owned());
        });
        assert_eq!(host.any().reason(), Reason::NoInterface);
        host.network.set_interfaces(Vec::new());
        assert_eq!(host.any().reason(), Reason::AddressNotLocal);
        let off = Host::with(Settings {
            offloaded_sockets: false,
            ..settings()
        });
        assert_eq!(off.any().reason(), Reason::Disabled);
        assert_eq!(off.device.opens(), 0);
    });
}

/// What a call on such a socket says and does is the kernel's, but the socket is not given up.
#[test]
fn a_socket_waits_for_an_interface_that_another_process_holds() {
    isolated(|| {
        let host = Host::new();
        host.device.set_held(true);
        host.device.refuse_open(FIRST_LINK, true);
        let socket = host.bound("10.0.0.1:0");
        assert_eq!(socket.reason(), Reason::Held);
        assert!(host.engine.waits_for_interface());
        assert_eq!(socket.snapshot(&host).unwrap().detail, "test101");
        let notes = host.statistics().notes().unwrap();
        assert_eq!(notes[0].topic, "holder");
        // It neither finds nor waits for anything past the kernel, and is not the kernel's for
        // good.
        let outcome = Receiving::begin(&socket, libc::MSG_DONTWAIT).attempt(&mut [0; 8]);
        assert!(matches!(outcome, RecvOutcome::Fail(error) if error.0 == libc::EAGAIN));
        host.device.refuse_open(FIRST_LINK, false);
        host.engine.network_changed(true);
        assert_eq!(socket.reason(), Reason::Offloaded);
        assert_eq!(socket.snapshot(&host).unwrap().detail, "");
        assert!(host.statistics().notes().unwrap().is_empty());
        host.arrives(PEER, socket.at(OUR_IP), b"past the kernel");
        assert_eq!(receive(&socket, 0), Ok(b"past the kernel".to_vec()));
    });
}
