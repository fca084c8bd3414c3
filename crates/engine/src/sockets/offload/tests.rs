use std::sync::LazyLock;

use dev_core::LinkSpec;

use super::*;

fn interface(index: u32, address: &str, eligible: bool) -> InterfaceFacts {
    InterfaceFacts {
        spec: LinkSpec {
            index,
            name: format!("eth{index}"),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            upper: None,
        },
        addresses: vec![address.parse().unwrap()],
        up: true,
        loopback: address.starts_with("127"),
        obstacle: if eligible { "" } else { "a bridge" }.to_owned(),
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

fn rules(text: &str) -> ProcessRules {
    ProcessRules::default().with_first(text).unwrap()
}

const BOTH: Versions = Versions { v4: true, v6: true };

static NO_RULES: LazyLock<ProcessRules> = LazyLock::new(ProcessRules::default);

fn facts(local: &str) -> SocketFacts<'static> {
    SocketFacts {
        local: local.parse().unwrap(),
        peer: None,
        versions: BOTH,
        device: 0,
        sharing: PortSharing::Alone,
        refusal: None,
        foreign: false,
        ipsec: false,
        rules: &NO_RULES,
    }
}

#[test]
fn every_reason_has_its_case() {
    let reason = |facts: SocketFacts<'_>| {
        let refusal = plan(&facts, &host()).unwrap_err();
        assert_eq!(refusal.rule, None);
        refusal.reason
    };
    assert_eq!(
        reason(SocketFacts {
            refusal: Some(Reason::Disabled),
            ..facts("10.0.0.1:1")
        }),
        Reason::Disabled
    );
    assert_eq!(
        reason(SocketFacts {
            foreign: true,
            ..facts("10.0.0.1:1")
        }),
        Reason::Namespace
    );
    assert_eq!(
        reason(SocketFacts {
            ipsec: true,
            ..facts("10.0.0.1:1")
        }),
        Reason::Ipsec
    );
    assert_eq!(reason(facts("[fe80::1]:1")), Reason::AddressNotLocal);
    assert_eq!(reason(facts("[ff05::1]:1")), Reason::Multicast);
    assert_eq!(reason(facts("[::1]:1")), Reason::Loopback);
    assert_eq!(reason(facts("[2001:db8::1]:1")), Reason::AddressNotLocal);
    for (sharing, expected) in [
        (PortSharing::Shared, Reason::PortShared),
        (PortSharing::Unknown, Reason::ReuseAddress),
    ] {
        let facts = SocketFacts {
            sharing,
            ..facts("10.0.0.1:1")
        };
        assert_eq!(reason(facts), expected);
    }
    assert_eq!(
        reason(SocketFacts {
            device: 3,
            ..facts("10.0.0.1:1")
        }),
        Reason::NoInterface
    );
    assert_eq!(reason(facts("127.0.0.1:1")), Reason::Loopback);
    assert_eq!(reason(facts("10.9.0.1:1")), Reason::AddressNotLocal);
    assert_eq!(reason(facts("224.0.0.1:1")), Reason::Multicast);
    assert_eq!(reason(facts("255.255.255.255:1")), Reason::NotUnicast);
    assert_eq!(reason(facts("10.2.0.1:1")), Reason::NoInterface);
    assert_eq!(
        plan(&facts("0.0.0.0:1"), &host()[..1]).unwrap_err().reason,
        Reason::NoInterface
    );
    assert_eq!(
        plan(&facts("0.0.0.0:1"), &[]).unwrap_err().reason,
        Reason::AddressNotLocal
    );
}

#[test]
fn any_address_means_any_of_each_eligible_interface() {
    let flows = plan(&facts("0.0.0.0:53"), &host()).unwrap();
    let locals: Vec<_> = flows
        .iter()
        .map(|(index, flow)| (*index, flow.local.to_string()))
        .collect();
    assert_eq!(
        locals,
        [(2, "0.0.0.0:53".to_owned()), (3, "0.0.0.0:53".to_owned())]
    );
    assert!(flows.iter().all(|(_, flow)| flow.peer.is_none()));
}

#[test]
fn an_address_has_the_versions_that_the_socket_carries() {
    let mut host = host();
    host[1].addresses.push("2001:db8::1".parse().unwrap());
    for (local, v4, v6, expected) in [
        (
            "[::]:53",
            true,
            true,
            &["0.0.0.0:53", "[::]:53", "0.0.0.0:53"][..],
        ),
        ("[::]:53", false, true, &["[::]:53"]),
        ("0.0.0.0:53", true, false, &["0.0.0.0:53", "0.0.0.0:53"]),
        ("[2001:db8::1]:53", false, true, &["[2001:db8::1]:53"]),
    ] {
        let versions = Versions { v4, v6 };
        let flows = plan(
            &SocketFacts {
                versions,
                ..facts(local)
            },
            &host,
        )
        .unwrap();
        let locals: Vec<_> = flows
            .iter()
            .map(|(_, flow)| flow.local.to_string())
            .collect();
        assert_eq!(locals, expected);
    }
}

#[test]
fn a_device_is_the_only_one() {
    let bound = SocketFacts {
        device: 3,
        ..facts("0.0.0.0:53")
    };
    let flows = plan(&bound, &host()).unwrap();
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0].0, 3);
}

#[test]
fn a_connected_socket_takes_its_peer_only() {
    let peer = "10.0.0.9:7".parse().unwrap();
    let flows = plan(
        &SocketFacts {
            peer: Some(peer),
            ..facts("10.0.0.1:53")
        },
        &host(),
    )
    .unwrap();
    let local = "10.0.0.1:53".parse().unwrap();
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

#[test]
fn a_receiver_rule_takes_the_flows_that_it_is_for() {
    let rules = rules("use os udp_receiver 10.0.0.0/24:53");
    let with_rules = |local| SocketFacts {
        rules: &rules,
        ..facts(local)
    };
    let flows = plan(&with_rules("0.0.0.0:53"), &host()).unwrap();
    assert_eq!(flows.len(), 1);
    assert_eq!(flows[0].1.local.to_string(), "10.1.0.1:53");
    let refusal = plan(&with_rules("10.0.0.1:53"), &host()).unwrap_err();
    assert_eq!(refusal.reason, Reason::ReceiverRule);
    assert_eq!(refusal.rule, rules.iter().next());
    assert_eq!(plan(&with_rules("10.0.0.1:54"), &host()).unwrap().len(), 1);
}

#[test]
fn a_connect_rule_is_for_connected_sockets() {
    let rules = rules("use os udp_connect 10.0.0.9:*:*:53");
    let connected = |local, peer: &str| SocketFacts {
        peer: Some(peer.parse().unwrap()),
        rules: &rules,
        ..facts(local)
    };
    let refusal = plan(&connected("10.0.0.1:53", "10.0.0.9:7"), &host()).unwrap_err();
    assert_eq!(refusal.reason, Reason::Rule);
    assert_eq!(refusal.rule, rules.iter().next());
    assert!(plan(&connected("10.0.0.1:54", "10.0.0.9:7"), &host()).is_ok());
    assert!(plan(&connected("10.0.0.1:53", "10.0.0.8:7"), &host()).is_ok());
    let unconnected = SocketFacts {
        peer: None,
        ..connected("10.0.0.1:53", "10.0.0.9:7")
    };
    assert!(plan(&unconnected, &host()).is_ok());
}

#[test]
fn a_program_is_the_kernels_if_both_directions_are() {
    let both = "use os udp_sender *:*\nuse os udp_receiver *:*";
    assert!(program_rule(&rules(both)).is_some());
    assert!(program_rule(&rules("use os udp_sender *:*")).is_none());
    assert!(program_rule(&rules("use os udp_receiver *:*")).is_none());
    assert!(program_rule(&NO_RULES).is_none());
    let to = |text: &str| sender_rule(&rules(both), text.parse().unwrap()).is_some();
    assert!(to("10.0.0.9:7"));
}
