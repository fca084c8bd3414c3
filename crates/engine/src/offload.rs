//! The offload decision: a pure function of what is known about a socket and the interfaces.

use std::collections::HashSet;
use std::net::SocketAddrV4;

use ring::{Flow, Protocol};

use crate::network::InterfaceFacts;
use crate::reason::Reason;

/// What is known about a bound UDP socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketFacts {
    /// Bound address; unspecified means every address of the host.
    pub(crate) local: SocketAddrV4,
    /// Peer of a connected socket.
    pub(crate) peer: Option<SocketAddrV4>,
    /// `SO_REUSEPORT`
    pub(crate) reuse_port: bool,
    /// `VMA_OFFLOADED_SOCKETS`
    pub(crate) enabled: bool,
}

/// Flows that would give the socket its packets, each with the index of the interface that they come in on.
pub(crate) fn plan(
    socket: &SocketFacts,
    interfaces: &[InterfaceFacts],
) -> Result<Vec<(u32, Flow)>, Reason> {
    if !socket.enabled {
        return Err(Reason::Disabled);
    }
    if socket.reuse_port {
        return Err(Reason::ReusePort);
    }
    let wanted = *socket.local.ip();
    if wanted.is_loopback() {
        return Err(Reason::Loopback);
    }
    let flow = |address| Flow {
        protocol: Protocol::Udp,
        local: SocketAddrV4::new(address, socket.local.port()),
        peer: socket.peer,
    };
    let owned = |interface: &&InterfaceFacts| {
        wanted.is_unspecified() || interface.addresses.contains(&wanted)
    };
    let mut owners = interfaces.iter().filter(owned).peekable();
    if owners.peek().is_none() {
        return Err(Reason::AddressNotLocal);
    }
    let mut flows = Vec::new();
    for interface in owners.filter(|interface| interface.eligible && !interface.loopback) {
        let addresses = interface.addresses.iter().copied();
        let addresses = addresses.filter(|address| wanted.is_unspecified() || *address == wanted);
        flows.extend(addresses.map(|address| (interface.spec.index, flow(address))));
    }
    // An address may be there twice, with two prefix lengths.
    let mut seen = HashSet::new();
    flows.retain(|flow| seen.insert(*flow));
    if flows.is_empty() {
        Err(Reason::NoInterface)
    } else {
        Ok(flows)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use ring::LinkSpec;

    use super::*;

    fn interface(index: u32, address: &str, eligible: bool) -> InterfaceFacts {
        InterfaceFacts {
            spec: LinkSpec {
                index,
                name: format!("eth{index}"),
                mac: [2, 0, 0, 0, 0, 1],
                mtu: 1500,
                driver: String::new(),
            },
            addresses: vec![address.parse().unwrap()],
            up: true,
            loopback: address.starts_with("127"),
            eligible,
        }
    }

    fn host() -> Vec<InterfaceFacts> {
        vec![
            interface(1, "127.0.0.1", false),
            interface(2, "10.0.0.1", true),
            interface(3, "10.1.0.1", true),
            interface(4, "10.2.0.1", false),
        ]
    }

    fn facts(local: &str) -> SocketFacts {
        SocketFacts {
            local: local.parse().unwrap(),
            peer: None,
            reuse_port: false,
            enabled: true,
        }
    }

    #[test]
    fn every_reason_has_its_case() {
        let reason = |facts: SocketFacts| plan(&facts, &host()).unwrap_err();
        assert_eq!(
            reason(SocketFacts {
                enabled: false,
                ..facts("10.0.0.1:1")
            }),
            Reason::Disabled
        );
        assert_eq!(
            reason(SocketFacts {
                reuse_port: true,
                ..facts("10.0.0.1:1")
            }),
            Reason::ReusePort
        );
        assert_eq!(reason(facts("127.0.0.1:1")), Reason::Loopback);
        assert_eq!(reason(facts("10.9.0.1:1")), Reason::AddressNotLocal);
        assert_eq!(reason(facts("224.0.0.1:1")), Reason::AddressNotLocal);
        assert_eq!(reason(facts("10.2.0.1:1")), Reason::NoInterface);
        assert_eq!(
            plan(&facts("0.0.0.0:1"), &host()[..1]).unwrap_err(),
            Reason::NoInterface
        );
        assert_eq!(
            plan(&facts("0.0.0.0:1"), &[]).unwrap_err(),
            Reason::AddressNotLocal
        );
    }

    #[test]
    fn any_address_means_each_address_of_each_eligible_interface() {
        let flows = plan(&facts("0.0.0.0:53"), &host()).unwrap();
        let locals: Vec<_> = flows
            .iter()
            .map(|(index, flow)| (*index, flow.local.to_string()))
            .collect();
        assert_eq!(
            locals,
            [(2, "10.0.0.1:53".to_owned()), (3, "10.1.0.1:53".to_owned())]
        );
        assert!(flows.iter().all(|(_, flow)| flow.peer.is_none()));
    }

    #[test]
    fn a_connected_socket_takes_its_peer_only() {
        let peer: SocketAddrV4 = "10.0.0.9:7".parse().unwrap();
        let flows = plan(
            &SocketFacts {
                peer: Some(peer),
                ..facts("10.0.0.1:53")
            },
            &host(),
        )
        .unwrap();
        let local = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 53);
        assert_eq!(
            flows,
            [(
                2,
                Flow {
                    protocol: Protocol::Udp,
                    local,
                    peer: Some(peer)
                }
            )]
        );
    }
}
