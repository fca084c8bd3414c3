//! Multicast groups: every socket that receives a group's datagrams gets each of them.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};

use crate::flow::{FlowHash, Protocol, V6Key, key, v6_key};

/// Whose datagrams a member of a group gets (RFC 3376 section 3, RFC 3810 section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFilter {
    /// Those of these sources.
    Include(Box<[IpAddr]>),
    /// Those of all but these.
    Exclude(Box<[IpAddr]>),
}

impl SourceFilter {
    /// Everybody's.
    pub fn none() -> Self {
        Self::Exclude(Box::default())
    }

    /// Whether it lets everything pass.
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Exclude(sources) if sources.is_empty())
    }

    /// Whether it lets the datagrams of a source pass.
    #[inline]
    pub fn allows(&self, source: IpAddr) -> bool {
        match self {
            Self::Include(sources) => sources.contains(&source),
            Self::Exclude(sources) => !sources.contains(&source),
        }
    }
}

/// One of those who receive from a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receiver<T> {
    /// Who it is.
    pub value: T,
    /// The only sender whose datagrams it gets, if there is one.
    pub peer: Option<SocketAddr>,
    /// Whose datagrams it gets.
    pub sources: SourceFilter,
}

impl<T> Receiver<T> {
    #[inline]
    fn gets_from(&self, source: SocketAddr) -> bool {
        self.peer.is_none_or(|peer| peer == source) && self.sources.allows(source.ip())
    }
}

/// The receivers of a group's datagrams to one port.
#[derive(Debug)]
struct Group<T> {
    receivers: Vec<Receiver<T>>,
    is_steered: bool,
}

/// Maps the addresses of multicast groups to those who receive from them. Flow label and scope of a group's address do not count; the
/// scope of a source's does.
#[derive(Debug)]
pub struct GroupTable<T> {
    v4: HashMap<u64, Group<T>, FlowHash>,
    v6: HashMap<V6Key, Group<T>>,
}

impl<T> Default for GroupTable<T> {
    fn default() -> Self {
        Self {
            v4: HashMap::default(),
            v6: HashMap::default(),
        }
    }
}

impl<T: Copy> GroupTable<T> {
    /// Adds a receiver. One that is there already, by `is_same`, is replaced.
    pub fn add(
        &mut self,
        address: SocketAddr,
        receiver: Receiver<T>,
        is_same: impl Fn(&T) -> bool,
    ) {
        let new = || Group {
            receivers: Vec::new(),
            is_steered: false,
        };
        let group = match address {
            SocketAddr::V4(group) => self.v4.entry(v4_place(group)).or_insert_with(new),
            SocketAddr::V6(_) => self.v6.entry(v6_place(address)).or_insert_with(new),
        };
        match group.receivers.iter_mut().find(|it| is_same(&it.value)) {
            Some(known) => *known = receiver,
            None => group.receivers.push(receiver),
        }
    }

    /// Removes a receiver, and the group with its last one.
    pub fn remove(&mut self, address: SocketAddr, is_same: impl Fn(&T) -> bool) {
        if let Some(group) = self.group_mut(address) {
            group.receivers.retain(|it| !is_same(&it.value));
            if group.receivers.is_empty() {
                match address {
                    SocketAddr::V4(group) => self.v4.remove(&v4_place(group)),
                    SocketAddr::V6(_) => self.v6.remove(&v6_place(address)),
                };
            }
        }
    }

    /// Who gets a datagram from `source` to a group.
    #[inline]
    pub fn receivers(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> impl Iterator<Item = T> + '_ {
        let group = self.group(destination);
        let receivers = group.map_or(&[][..], |group| &group.receivers);
        receivers
            .iter()
            .filter(move |receiver| receiver.gets_from(source))
            .map(|receiver| receiver.value)
    }

    /// Whether the group's datagrams are taken from the kernel.
    pub fn is_steered(&self, address: SocketAddr) -> bool {
        let group = self.group(address);
        group.is_some_and(|group| group.is_steered)
    }

    /// Whether those of any group are.
    pub fn any_steered(&self) -> bool {
        let mut v6 = self.v6.values();
        self.v4.values().any(|group| group.is_steered) || v6.any(|group| group.is_steered)
    }

    /// Says whether they are. Nothing to say of a group without receivers.
    pub fn set_steered(&mut self, address: SocketAddr, is_steered: bool) {
        if let Some(group) = self.group_mut(address) {
            group.is_steered = is_steered;
        }
    }

    #[inline]
    fn group(&self, address: SocketAddr) -> Option<&Group<T>> {
        match address {
            SocketAddr::V4(group) => self.v4.get(&v4_place(group)),
            SocketAddr::V6(_) => self.v6.get(&v6_place(address)),
        }
    }

    fn group_mut(&mut self, address: SocketAddr) -> Option<&mut Group<T>> {
        match address {
            SocketAddr::V4(group) => self.v4.get_mut(&v4_place(group)),
            SocketAddr::V6(_) => self.v6.get_mut(&v6_place(address)),
        }
    }
}

#[inline]
fn v4_place(address: SocketAddrV4) -> u64 {
    key(Protocol::Udp, address)
}

#[inline]
fn v6_place(address: SocketAddr) -> V6Key {
    v6_key(Protocol::Udp, address)
}

#[cfg(test)]
mod tests {
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
        let receiver = Receiver {
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
}
