use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn add(table: &mut GroupTable<u32>, group: &str, receiver: u32, peer: Option<&str>) {
    add_filtered(table, group, receiver, peer, SourceFilter::none());
}

fn add_filtered(
    table: &mut GroupTable<u32>,
    group: &str,
    value: u32,
    peer: Option<&str>,
    sources: SourceFilter,
) {
    let receiver = GroupMember {
        value,
        peer: peer.map(address),
        sources,
    };
    table.add(address(group), receiver, |other: &u32| *other == value);
}

#[test]
fn sources_are_let_in_or_kept_out() {
    let mut table = GroupTable::default();
    let sources = |text: &str| text.split(' ').map(|it| it.parse().unwrap()).collect();
    let only = SourceFilter::Include(sources("10.0.0.1 10.0.0.2"));
    let but = SourceFilter::Exclude(sources("10.0.0.2 10.0.0.3"));
    add_filtered(&mut table, "239.1.1.1:5", 1, None, only);
    add_filtered(&mut table, "239.1.1.1:5", 2, None, but);
    let nobody = SourceFilter::Include(Box::default());
    add_filtered(&mut table, "239.1.1.1:5", 3, None, nobody);
    add_filtered(&mut table, "239.1.1.1:5", 4, None, SourceFilter::none());
    for (source, expected) in [
        ("10.0.0.1:9", &[1, 2, 4][..]),
        ("10.0.0.2:9", &[1, 4]),
        ("10.0.0.3:9", &[4]),
        ("10.0.0.4:9", &[2, 4]),
    ] {
        let receivers = table.receivers(address(source), address("239.1.1.1:5"));
        assert_eq!(receivers.collect::<Vec<_>>(), expected, "{source}");
    }
}

#[test]
fn groups_of_ipv6_are_told_apart_from_those_of_ipv4() {
    let mut table = GroupTable::default();
    add(&mut table, "[ff05::ef01:101]:5", 1, None);
    add(&mut table, "239.1.1.1:5", 2, None);
    add(&mut table, "[ff02::1]:5", 3, Some("[fe80::9%4]:9"));
    let only = SourceFilter::Include(Box::new(["2001:db8::9".parse().unwrap()]));
    add_filtered(&mut table, "[ff02::1]:5", 4, None, only);
    for (source, group, expected) in [
        ("10.0.0.9:9", "239.1.1.1:5", &[2][..]),
        ("[2001:db8::9]:9", "[ff05::ef01:101]:5", &[1]),
        ("[2001:db8::9]:9", "[ff05::ef01:101]:6", &[]),
        ("[2001:db8::9]:9", "[ff02::1]:5", &[4]),
        // The scope of a group's address says nothing here.
        ("[fe80::9%4]:9", "[ff02::1%4]:5", &[3]),
        ("[fe80::9%5]:9", "[ff02::1]:5", &[]),
    ] {
        let receivers = table.receivers(address(source), address(group));
        assert_eq!(receivers.collect::<Vec<_>>(), expected, "{source} {group}");
    }
    let group = address("[ff02::1]:5");
    table.set_steered(group, true);
    assert!(table.is_steered(group) && !table.is_steered(address("239.1.1.1:5")));
    table.remove(group, |it| *it == 3);
    table.remove(group, |it| *it == 4);
    assert!(!table.is_steered(group));
}

#[test]
fn each_receiver_gets_what_is_for_it() {
    let mut table = GroupTable::default();
    add(&mut table, "239.1.1.1:5", 1, None);
    add(&mut table, "239.1.1.1:5", 2, Some("10.0.0.9:9"));
    add(&mut table, "239.1.1.2:5", 3, None);
    let get = |table: &GroupTable<u32>, source, group| {
        let receivers = table.receivers(address(source), address(group));
        receivers.collect::<Vec<_>>()
    };
    assert_eq!(get(&table, "10.0.0.9:9", "239.1.1.1:5"), [1, 2]);
    assert_eq!(get(&table, "10.0.0.9:8", "239.1.1.1:5"), [1]);
    assert_eq!(get(&table, "10.0.0.9:9", "239.1.1.2:5"), [3]);
    assert_eq!(get(&table, "10.0.0.9:9", "239.1.1.1:6"), [0; 0]);
    // Connected anew.
    add(&mut table, "239.1.1.1:5", 2, Some("10.0.0.9:8"));
    assert_eq!(get(&table, "10.0.0.9:9", "239.1.1.1:5"), [1]);
    table.remove(address("239.1.1.1:5"), |it| *it == 1);
    assert_eq!(get(&table, "10.0.0.9:8", "239.1.1.1:5"), [2]);
}

#[test]
fn a_group_is_steered_as_long_as_it_has_receivers() {
    let mut table = GroupTable::default();
    let group = address("239.1.1.1:5");
    table.set_steered(group, true);
    assert!(!table.is_steered(group));
    add(&mut table, "239.1.1.1:5", 1, None);
    assert!(!table.is_steered(group));
    table.set_steered(group, true);
    assert!(table.any_steered());
    add(&mut table, "239.1.1.1:5", 2, None);
    table.remove(group, |it| *it == 1);
    assert!(table.is_steered(group));
    table.remove(group, |it| *it == 2);
    add(&mut table, "239.1.1.1:5", 2, None);
    assert!(!table.is_steered(group) && !table.any_steered());
}

#[test]
fn one_may_receive_from_every_group_of_a_port() {
    let mut table = GroupTable::default();
    let any = |value| GroupMember {
        value,
        peer: None,
        sources: SourceFilter::none(),
    };
    let get = |table: &GroupTable<u32>, source, group| {
        let receivers = table.receivers(address(source), address(group));
        receivers.collect::<Vec<_>>()
    };
    let (one, two) = (address("239.1.1.1:5"), address("239.1.1.2:5"));
    let only = SourceFilter::Include(Box::new(["10.0.0.1".parse().unwrap()]));
    add_filtered(&mut table, "239.1.1.1:5", 1, None, only.clone());
    let except = HashSet::from([one.ip()]);
    table.add_to_any((5, false), any(1), except, |it| *it == 1);
    table.add_to_any((5, false), any(2), HashSet::new(), |it| *it == 2);
    // A group that is not taken is nobody's who has no place of its own there.
    assert_eq!(get(&table, "10.0.0.1:9", "239.1.1.2:5"), [0; 0]);
    table.set_steered(one, true);
    table.set_steered(two, true);
    assert_eq!(get(&table, "10.0.0.1:9", "239.1.1.1:5"), [1, 2]);
    assert_eq!(get(&table, "10.0.0.2:9", "239.1.1.1:5"), [2]);
    assert_eq!(get(&table, "10.0.0.2:9", "239.1.1.2:5"), [1, 2]);
    for other in ["239.1.1.2:6", "[ff05::1]:5"] {
        assert_eq!(get(&table, "10.0.0.2:9", other), [0; 0]);
    }
    assert_eq!(table.steered_count((5, false)), 2);
    // Its own place comes and goes.
    add_filtered(&mut table, "239.1.1.2:5", 2, None, only);
    assert_eq!(get(&table, "10.0.0.2:9", "239.1.1.2:5"), [1]);
    table.remove(two, |it| *it == 2);
    assert_eq!(get(&table, "10.0.0.2:9", "239.1.1.2:5"), [1, 2]);
    assert!(table.is_steered(two));
    table.remove_from_any((5, false), |it| *it == 1);
    table.remove_from_any((5, false), |it| *it == 2);
    // Nobody is left in the second.
    assert!(table.is_steered(one) && !table.is_steered(two));
    assert_eq!(table.steered((5, false)).collect::<Vec<_>>(), [one.ip()]);
    table.remove(one, |it| *it == 1);
    assert!(!table.any_steered() && table.ports.is_empty() && table.any_count == 0);
}
