use super::*;

const LINK: u32 = 7;
const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const OTHER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn link(index: u32) -> Link {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
        .attributes
        .push(LinkAttribute::IfName(format!("eth{index}")));
    message.attributes.push(LinkAttribute::Mtu(1500));
    Link::from_message(&message).unwrap()
}

fn address(link_index: u32, address: IpAddr) -> Address {
    let mut message = AddressMessage::default();
    message.header.index = link_index;
    message.header.prefix_len = 24;
    let attribute = netlink_packet_route::address::AddressAttribute::Local(address);
    message.attributes.push(attribute);
    Address::from_message(&message).unwrap()
}

fn neighbour(state: NeighbourState, mac: Option<[u8; 6]>) -> Neighbour {
    Neighbour {
        link_index: LINK,
        address: HOST,
        mac,
        state,
    }
}

/// Applies `update`; whether it matters for forwarding, and what changed.
fn apply(snapshot: &mut Snapshot, update: Update) -> (bool, Changes) {
    let mut changes = Changes::default();
    let matters = snapshot.apply(update, &mut changes);
    (matters, changes)
}

#[test]
fn a_neighbour_matters_only_when_its_usable_mac_changes() {
    use NeighbourState::{Delay, Failed, Incomplete, Probe, Reachable, Stale};
    let mut snapshot = Snapshot::default();
    let steps = [
        (Incomplete, None, false),
        (Reachable, Some(MAC), true),
        (Stale, Some(MAC), false),
        (Delay, Some(MAC), false),
        (Probe, Some(MAC), false),
        (Reachable, Some(MAC), false),
        (Stale, Some(OTHER_MAC), true),
        (Failed, Some(OTHER_MAC), true),
        (Incomplete, Some(OTHER_MAC), false),
        (Failed, None, false),
        (Stale, Some(MAC), true),
    ];
    for (step, (state, mac, expected)) in steps.into_iter().enumerate() {
        let update = Update::Neighbour(neighbour(state, mac));
        let (matters, changes) = apply(&mut snapshot, update);
        assert_eq!(matters, expected, "step {step}: {state:?}");
        assert!(changes.neighbours, "step {step}");
        let stale = if state == Stale {
            vec![(LINK, HOST)]
        } else {
            vec![]
        };
        assert_eq!(changes.stale_neighbours, stale, "step {step}");
    }
    assert!(
        apply(&mut snapshot, Update::NeighbourGone((LINK, HOST))).0,
        "it was usable"
    );
    assert!(
        !apply(&mut snapshot, Update::NeighbourGone((LINK, HOST))).0,
        "it is gone already"
    );
}

#[test]
fn removing_an_unusable_neighbour_does_not_matter() {
    let mut snapshot = Snapshot::default();
    apply(
        &mut snapshot,
        Update::Neighbour(neighbour(NeighbourState::Failed, None)),
    );
    let (matters, changes) = apply(&mut snapshot, Update::NeighbourGone((LINK, HOST)));
    assert!(!matters);
    assert!(changes.neighbours);
}

#[test]
fn what_is_repeated_changes_nothing() {
    let mut snapshot = Snapshot::default();
    let updates = || {
        [
            Update::Link(link(LINK)),
            Update::Address(address(LINK, HOST)),
            Update::Neighbour(neighbour(NeighbourState::Stale, Some(MAC))),
        ]
    };
    for update in updates() {
        assert!(apply(&mut snapshot, update).0);
    }
    for update in updates() {
        let (matters, changes) = apply(&mut snapshot, update);
        assert!(!matters && changes.is_empty(), "{changes:?}");
    }
    let unknown = Update::AddressGone(address(LINK + 1, HOST));
    assert!(apply(&mut snapshot, unknown).1.is_empty());
    assert!(
        apply(&mut snapshot, Update::LinkGone(LINK + 1))
            .1
            .is_empty()
    );
    assert!(apply(&mut snapshot, Update::Nothing).1.is_empty());
}

#[test]
fn an_address_that_changes_its_flags_is_replaced() {
    let mut snapshot = Snapshot::default();
    let mut tentative = address(LINK, HOST);
    tentative.tentative = true;
    apply(&mut snapshot, Update::Address(tentative));
    let (matters, changes) = apply(&mut snapshot, Update::Address(address(LINK, HOST)));
    assert!(matters && changes.addresses);
    assert_eq!(snapshot.addresses, [address(LINK, HOST)]);
}

#[test]
fn a_link_takes_its_addresses_and_neighbours_with_it() {
    let mut snapshot = Snapshot::default();
    for update in [
        Update::Link(link(LINK)),
        Update::Link(link(8)),
        Update::Address(address(LINK, HOST)),
        Update::Address(address(8, HOST)),
        Update::Neighbour(neighbour(NeighbourState::Reachable, Some(MAC))),
    ] {
        apply(&mut snapshot, update);
    }
    let (matters, changes) = apply(&mut snapshot, Update::LinkGone(LINK));
    assert!(matters && changes.links && changes.addresses && changes.neighbours);
    assert_eq!(changes.changed_links, [LINK]);
    assert_eq!(snapshot.addresses, [address(8, HOST)]);
    assert!(snapshot.neighbours.is_empty() && snapshot.links.len() == 1);
}

#[test]
fn comparing_finds_what_appeared_changed_and_disappeared() {
    let mut old = Snapshot::default();
    apply(&mut old, Update::Link(link(1)));
    apply(&mut old, Update::Link(link(2)));
    apply(
        &mut old,
        Update::Neighbour(neighbour(NeighbourState::Reachable, Some(MAC))),
    );
    let mut new = old.clone();
    let mut changes = Changes::default();
    old.compare(&new, &mut changes);
    assert!(changes.is_empty(), "{changes:?}");

    apply(&mut new, Update::LinkGone(1));
    apply(
        &mut new,
        Update::Link(Link {
            mtu: 9000,
            ..link(2)
        }),
    );
    apply(&mut new, Update::Link(link(3)));
    apply(&mut new, Update::Address(address(3, HOST)));
    apply(
        &mut new,
        Update::Neighbour(neighbour(NeighbourState::Stale, Some(MAC))),
    );
    old.compare(&new, &mut changes);
    changes.changed_links.sort_unstable();
    assert_eq!(changes.changed_links, [1, 2, 3]);
    assert!(changes.links && changes.addresses && changes.neighbours && !changes.routes);
    assert_eq!(changes.stale_neighbours, [(LINK, HOST)]);
}

#[test]
fn messages_of_bridges_are_not_about_links_and_neighbours() {
    const AF_BRIDGE: u8 = 7;
    for kind in [RTM_NEWLINK, RTM_DELLINK, RTM_NEWNEIGH, RTM_DELNEIGH] {
        let mut header = netlink_packet_core::NetlinkHeader::default();
        header.message_type = kind;
        // Too short to be decoded: it must not even be tried.
        let message = Message {
            header,
            payload: &[AF_BRIDGE],
        };
        assert_eq!(Update::from_message(&message), Ok(Update::Nothing));
    }
}

#[test]
fn a_link_message_without_name_or_mtu_is_not_a_link() {
    let mut message = LinkMessage::default();
    message.header.index = 1;
    message
        .attributes
        .push(LinkAttribute::IfName("wlan0".to_owned()));
    assert_eq!(Link::from_message(&message), None);
}
