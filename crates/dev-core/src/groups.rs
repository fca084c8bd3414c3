//! Multicast groups: every socket that receives a group's datagrams gets each of them.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::net::SocketAddrV4;

use crate::flow::{FlowHasher, Protocol, key};

/// The receivers of a group's datagrams to one port.
#[derive(Debug)]
struct Group<T> {
    receivers: Vec<(T, Option<SocketAddrV4>)>,
    is_steered: bool,
}

/// Maps the addresses of multicast groups to those who receive from them.
#[derive(Debug)]
pub struct GroupTable<T> {
    groups: HashMap<u64, Group<T>, BuildHasherDefault<FlowHasher>>,
}

impl<T> Default for GroupTable<T> {
    fn default() -> Self {
        Self {
            groups: HashMap::default(),
        }
    }
}

impl<T: Copy> GroupTable<T> {
    /// Adds a receiver, of everything or of what `peer` sends. One that is there already, by `is_same`, is replaced.
    pub fn add(
        &mut self,
        address: SocketAddrV4,
        receiver: T,
        peer: Option<SocketAddrV4>,
        is_same: impl Fn(&T) -> bool,
    ) {
        let group = self.groups.entry(place(address)).or_insert_with(|| Group {
            receivers: Vec::new(),
            is_steered: false,
        });
        match group.receivers.iter_mut().find(|it| is_same(&it.0)) {
            Some(known) => *known = (receiver, peer),
            None => group.receivers.push((receiver, peer)),
        }
    }

    /// Removes a receiver, and the group with its last one.
    pub fn remove(&mut self, address: SocketAddrV4, is_same: impl Fn(&T) -> bool) {
        if let Some(group) = self.groups.get_mut(&place(address)) {
            group.receivers.retain(|it| !is_same(&it.0));
            if group.receivers.is_empty() {
                self.groups.remove(&place(address));
            }
        }
    }

    /// Who gets a datagram from `source` to a group.
    #[inline]
    pub fn receivers(
        &self,
        source: SocketAddrV4,
        destination: SocketAddrV4,
    ) -> impl Iterator<Item = T> + '_ {
        let group = self.groups.get(&place(destination));
        let receivers = group.map_or(&[][..], |group| &group.receivers);
        receivers
            .iter()
            .filter(move |(_, peer)| peer.is_none_or(|peer| peer == source))
            .map(|(receiver, _)| *receiver)
    }

    /// Whether the group's datagrams are taken from the kernel.
    pub fn is_steered(&self, address: SocketAddrV4) -> bool {
        let group = self.groups.get(&place(address));
        group.is_some_and(|group| group.is_steered)
    }

    /// Says whether they are. Nothing to say of a group without receivers.
    pub fn set_steered(&mut self, address: SocketAddrV4, is_steered: bool) {
        if let Some(group) = self.groups.get_mut(&place(address)) {
            group.is_steered = is_steered;
        }
    }
}

#[inline]
fn place(address: SocketAddrV4) -> u64 {
    key(Protocol::Udp, address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddrV4 {
        text.parse().unwrap()
    }

    fn add(table: &mut GroupTable<u32>, group: &str, receiver: u32, peer: Option<&str>) {
        let is_same = |other: &u32| *other == receiver;
        table.add(address(group), receiver, peer.map(address), is_same);
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
        add(&mut table, "239.1.1.1:5", 2, None);
        table.remove(group, |it| *it == 1);
        assert!(table.is_steered(group));
        table.remove(group, |it| *it == 2);
        add(&mut table, "239.1.1.1:5", 2, None);
        assert!(!table.is_steered(group));
    }
}
