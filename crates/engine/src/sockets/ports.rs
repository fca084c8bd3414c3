//! Which sockets of this process are bound to a port. What comes to one socket or goes from it may concern others there, and a feed handler
//! has hundreds of sockets elsewhere, or at the same port for other groups.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sockets::groups::SocketGroups;
use crate::sockets::stack::Stack;

/// Those of one port.
#[derive(Debug)]
struct AtPort<S> {
    /// By address, but for those of any address.
    by_address: HashMap<IpAddr, Vec<S>>,
    /// Those of any address.
    wildcards: Vec<Wildcard<S>>,
    /// Those of any address, by the groups that they are members of.
    members: HashMap<IpAddr, Vec<S>>,
}

#[derive(Debug)]
struct Wildcard<S> {
    socket: S,
    /// Groups that it is no member of may be for it.
    is_for_any_group: bool,
}

impl<S> Default for AtPort<S> {
    fn default() -> Self {
        Self {
            by_address: HashMap::new(),
            wildcards: Vec::new(),
            members: HashMap::new(),
        }
    }
}

impl<S: Stack> AtPort<S> {
    fn add(&mut self, socket: S, groups: &SocketGroups<S>, ip: IpAddr) {
        if !ip.is_unspecified() {
            self.by_address.entry(ip).or_default().push(socket);
            return;
        }
        self.wildcards.push(Wildcard {
            socket,
            is_for_any_group: groups.is_for_any(false),
        });
        for group in groups.memberships.groups() {
            self.members.entry(group).or_default().push(socket);
        }
    }

    fn remove(&mut self, socket: S, groups: &SocketGroups<S>, ip: IpAddr) {
        if !ip.is_unspecified() {
            take_out(&mut self.by_address, ip, socket);
            return;
        }
        let is_it = |it: &Wildcard<S>| is_same(it.socket, socket);
        if let Some(place) = self.wildcards.iter().position(is_it) {
            self.wildcards.swap_remove(place);
        }
        for group in groups.memberships.groups() {
            take_out(&mut self.members, group, socket);
        }
    }

    fn is_empty(&self) -> bool {
        self.by_address.is_empty() && self.wildcards.is_empty()
    }
}

/// The sockets by port. A leaf among the locks; changed under the control lock.
#[derive(Debug)]
pub(crate) struct Ports<S>(Mutex<HashMap<u16, AtPort<S>>>);

impl<S: Stack> Ports<S> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    /// A socket goes over from one address to another. It has none if the port is 0.
    pub(crate) fn change(
        &self,
        socket: S,
        groups: &SocketGroups<S>,
        from: SocketAddr,
        to: SocketAddr,
    ) {
        let mut ports = self.lock();
        if from == to {
            let known = ports
                .get_mut(&to.port())
                .filter(|_| to.ip().is_unspecified());
            let mut wildcards = known.into_iter().flat_map(|it| it.wildcards.iter_mut());
            if let Some(it) = wildcards.find(|it| is_same(it.socket, socket)) {
                it.is_for_any_group = groups.is_for_any(false);
            }
            return;
        }
        if from.port() != 0
            && let Some(there) = ports.get_mut(&from.port())
        {
            there.remove(socket, groups, from.ip());
            if there.is_empty() {
                ports.remove(&from.port());
            }
        }
        if to.port() != 0 {
            let there = ports.entry(to.port()).or_default();
            there.add(socket, groups, to.ip());
        }
    }

    /// The socket is closed.
    pub(crate) fn remove(&self, socket: S, groups: &SocketGroups<S>, from: SocketAddr) {
        self.change(socket, groups, from, SocketAddr::new(from.ip(), 0));
    }

    /// The socket has become a member of a group, or is none any more.
    pub(crate) fn member(&self, socket: S, local: SocketAddr, group: IpAddr, is_member: bool) {
        let mut ports = self.lock();
        let Some(there) = ports
            .get_mut(&local.port())
            .filter(|_| local.ip().is_unspecified())
        else {
            return;
        };
        if !is_member {
            return take_out(&mut there.members, group, socket);
        }
        let members = there.members.entry(group).or_default();
        if !members.iter().any(|it| is_same(*it, socket)) {
            members.push(socket);
        }
    }

    /// The sockets of a port that may have datagrams to a group; `None`: to any. Of those that are for groups which they are members of
    /// only the members are looked at, and those that the kernel has for good.
    pub(crate) fn of(&self, port: u16, group: Option<IpAddr>) -> Vec<S> {
        let ports = self.lock();
        let Some(there) = ports.get(&port) else {
            return Vec::new();
        };
        let wildcards = there.wildcards.iter();
        let Some(group) = group else {
            let by_address = there.by_address.iter();
            let by_group = by_address.filter(|(ip, _)| ip.is_multicast());
            let by_group = by_group.flat_map(|(_, sockets)| sockets).copied();
            return wildcards.map(|it| it.socket).chain(by_group).collect();
        };
        let mut sockets = there.members.get(&group).cloned().unwrap_or_default();
        let members = sockets.len();
        for it in wildcards.filter(|it| it.is_for_any_group || it.socket.core().is_committed()) {
            let mut known = sockets.iter().take(members);
            if !known.any(|member| is_same(*member, it.socket)) {
                sockets.push(it.socket);
            }
        }
        sockets.extend(there.by_address.get(&group).into_iter().flatten());
        sockets
    }

    /// Those for any address of this host, if anybody at the port is for groups, too.
    pub(crate) fn wildcards_beside_groups(&self, port: u16) -> Vec<S> {
        let ports = self.lock();
        let there = ports.get(&port).filter(|there| {
            let mut addresses = there.by_address.keys();
            !there.members.is_empty() || addresses.any(IpAddr::is_multicast)
        });
        let wildcards = there.into_iter().flat_map(|it| &it.wildcards);
        wildcards.map(|it| it.socket).collect()
    }

    /// All sockets of a port.
    pub(crate) fn all(&self, port: u16) -> Vec<S> {
        let ports = self.lock();
        let there = || ports.get(&port).into_iter();
        let wildcards = there().flat_map(|it| &it.wildcards).map(|it| it.socket);
        let others = there().flat_map(|it| it.by_address.values());
        wildcards.chain(others.flatten().copied()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, AtPort<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_same<S: Stack>(one: S, other: S) -> bool {
    ptr::eq(one.core(), other.core())
}

fn take_out<S: Stack>(sockets: &mut HashMap<IpAddr, Vec<S>>, ip: IpAddr, socket: S) {
    if let Some(there) = sockets.get_mut(&ip) {
        there.retain(|it| !is_same(*it, socket));
        if there.is_empty() {
            sockets.remove(&ip);
        }
    }
}
