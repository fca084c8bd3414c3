//! Flows of sockets while interfaces and addresses come and go.

use std::net::Ipv4Addr;

use engine::Reason;

use crate::support::calls::receive;
use crate::support::device::Device;
use crate::support::host::Host;
use crate::support::isolation::isolated;
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
            interfaces[0].addresses = vec![new, OUR_IP];
        });
        host.engine.network_changed(true);
        assert_eq!(flows(&host), [2, 1]);
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
            .change_interfaces(|interfaces| interfaces[0].addresses.push(OUR_IP));
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
            .announce(engine::NetworkChange { interfaces: true });
        host.engine.follow_network();
        assert_eq!(flows(&host), [1, 0]);
        drop(socket);
    });
}
