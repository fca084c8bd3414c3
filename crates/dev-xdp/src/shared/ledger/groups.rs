//! Ports that several processes have together: each group has one number, and who is in it has all
//! of its addresses.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::SocketAddr;

use dev_core::Protocol;

use super::in_use;
use crate::bpf::program::GROUPS_MAX;
use crate::table::Port;

/// The groups of an interface.
#[derive(Debug, Default)]
pub(in crate::shared) struct Groups(HashMap<(Protocol, u16), Group>);

#[derive(Debug)]
struct Group {
    number: u8,
    members: HashMap<u8, Membership>,
}

/// Of one process.
#[derive(Debug, Default)]
struct Membership {
    locals: HashSet<SocketAddr>,
    /// Its sockets, by the numbers that the kernel gives them.
    inodes: HashSet<u64>,
}

/// What has come of it that a process joins a group, or leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shared) struct GroupChange {
    pub(in crate::shared) number: u8,
    /// Of the port at this address it is the first one, or was the last.
    pub(in crate::shared) is_only: bool,
}

impl Groups {
    pub(in crate::shared) fn has(&self, port: Port) -> bool {
        self.0.contains_key(&key(port))
    }

    pub(in crate::shared) fn is_member(&self, place: u8, port: Port) -> bool {
        let group = self.0.get(&key(port));
        group.is_some_and(|it| it.members.contains_key(&place))
    }

    /// # Errors
    /// `EADDRINUSE`: others of the group have another address and not this one. `ENOSPC`: there are
    /// as many groups as can be.
    pub(super) fn join(&mut self, place: u8, port: Port, inode: u64) -> io::Result<GroupChange> {
        let number = match self.0.get(&key(port)) {
            Some(group) => group.number,
            None => self.free_number()?,
        };
        let group = self.0.entry(key(port)).or_insert_with(|| Group {
            number,
            members: HashMap::new(),
        });
        let mut wanted = HashSet::from([port.1]);
        if let Some(own) = group.members.get(&place) {
            wanted.extend(&own.locals);
        }
        // Else what is for one of them might come to the other.
        let mut others = group.members.iter().filter(|(other, _)| **other != place);
        let fits = |locals: &HashSet<_>| locals.is_subset(&wanted) || wanted.is_subset(locals);
        if !others.all(|(_, it)| fits(&it.locals)) {
            return Err(in_use());
        }
        let has = |it: &Membership| it.locals.contains(&port.1);
        let is_only = !group.members.values().any(has);
        let own = group.members.entry(place).or_default();
        own.locals.insert(port.1);
        own.inodes.insert(inode);
        Ok(GroupChange { number, is_only })
    }

    /// `None`: it was in none.
    pub(super) fn leave(&mut self, place: u8, port: Port) -> Option<GroupChange> {
        let group = self.0.get_mut(&key(port))?;
        let own = group.members.get_mut(&place)?;
        if !own.locals.remove(&port.1) {
            return None;
        }
        if own.locals.is_empty() {
            group.members.remove(&place);
        }
        let has = |it: &Membership| it.locals.contains(&port.1);
        let is_only = !group.members.values().any(has);
        let number = group.number;
        if group.members.is_empty() {
            self.0.remove(&key(port));
        }
        Some(GroupChange { number, is_only })
    }

    /// Those who take what comes to a group: who has all of its addresses.
    pub(in crate::shared) fn takers(&self, number: u8) -> Vec<u8> {
        let Some(group) = self.0.values().find(|it| it.number == number) else {
            return Vec::new();
        };
        let most = group.members.values().map(|it| it.locals.len()).max();
        let has_all = |it: &&Membership| Some(it.locals.len()) == most;
        let takers = group.members.iter().filter(|(_, it)| has_all(it));
        let mut takers: Vec<u8> = takers.map(|(place, _)| *place).collect();
        takers.sort_unstable();
        takers
    }

    /// Whether a group is of listeners. Datagrams are for whom they are, however late that is.
    pub(in crate::shared) fn listens(&self, number: u8) -> bool {
        let mut groups = self.0.iter();
        groups.any(|(key, it)| it.number == number && key.0 == Protocol::Tcp)
    }

    /// The numbers of the groups that a process is in.
    pub(in crate::shared) fn of(&self, place: u8) -> impl Iterator<Item = u8> + '_ {
        let groups = self.0.values();
        let is_in = move |it: &&Group| it.members.contains_key(&place);
        groups.filter(is_in).map(|it| it.number)
    }

    /// Whether all of these sockets are members' of the group with the port.
    pub(in crate::shared) fn have_joined(
        &self,
        port: Port,
        inodes: impl Iterator<Item = u64>,
    ) -> bool {
        let Some(group) = self.0.get(&key(port)) else {
            return false;
        };
        let has = |inode: &u64| group.members.values().any(|it| it.inodes.contains(inode));
        inodes.into_iter().all(|inode| has(&inode))
    }

    fn free_number(&self) -> io::Result<u8> {
        let is_free = |number: &u8| !self.0.values().any(|it| it.number == *number);
        let full = || io::Error::from_raw_os_error(libc::ENOSPC);
        (0..GROUPS_MAX).find(is_free).ok_or_else(full)
    }
}

fn key(port: Port) -> (Protocol, u16) {
    (port.0, port.1.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(address: &str) -> Port {
        (Protocol::Tcp, address.parse().unwrap())
    }

    fn change(number: u8, is_only: bool) -> GroupChange {
        GroupChange { number, is_only }
    }

    #[test]
    fn members_have_the_same_addresses() {
        let mut groups = Groups::default();
        let (v4, v6) = (port("0.0.0.0:80"), port("[::]:80"));
        assert_eq!(groups.join(1, v4, 10).unwrap(), change(0, true));
        assert_eq!(groups.join(1, v6, 10).unwrap(), change(0, true));
        assert_eq!(groups.join(2, v4, 20).unwrap(), change(0, false));
        assert_eq!(groups.takers(0), [1], "2 has one address only");
        assert_eq!(groups.join(2, v6, 21).unwrap(), change(0, false));
        assert_eq!(groups.takers(0), [1, 2]);
        assert!(groups.join(3, port("10.0.0.1:80"), 30).is_err());
        assert_eq!(
            groups.join(3, port("10.0.0.1:81"), 31).unwrap(),
            change(1, true)
        );
        assert!(groups.have_joined(v4, [10, 20, 21].into_iter()));
        assert!(!groups.have_joined(v4, [10, 31].into_iter()));
        assert_eq!(groups.leave(1, v4), Some(change(0, false)));
        assert_eq!(groups.leave(1, v4), None);
        assert_eq!(groups.takers(0), [2]);
        assert_eq!(groups.of(1).collect::<Vec<_>>(), [0]);
        assert_eq!(groups.leave(1, v6), Some(change(0, false)));
        assert!(!groups.is_member(1, v4) && groups.is_member(2, v4));
        assert_eq!(groups.leave(2, v6), Some(change(0, true)));
        assert_eq!(groups.leave(2, v4), Some(change(0, true)));
        assert!(!groups.has(v4) && groups.takers(0).is_empty());
    }

    #[test]
    fn numbers_are_given_again() {
        let mut groups = Groups::default();
        let at = |number: u16| (Protocol::Udp, SocketAddr::from(([10, 0, 0, 1], number)));
        for number in 0..u16::from(GROUPS_MAX) {
            groups.join(0, at(1 + number), 1).unwrap();
        }
        let full = groups.join(0, at(999), 1).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        groups.leave(0, at(5)).unwrap();
        assert_eq!(groups.join(0, at(999), 1).unwrap().number, 4);
    }
}
