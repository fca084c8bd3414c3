//! Which sockets of this process are bound to a port. What comes to one socket or goes from it may
//! concern others there, and a feed handler has hundreds of sockets elsewhere, or at the same port
//! for other groups.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dev_core::SourceFilter;
use links::family::Versions;
use links::groups::SocketGroups;
use links::network::PortUser;

use crate::sockets::changes::commits;
use crate::sockets::stack::Stack;

/// Those of one port.
#[derive(Debug)]
struct AtPort<S> {
    /// By address, but for those of any address.
    by_address: HashMap<IpAddr, Vec<S>>,
    /// Those of any address.
    wildcards: Vec<Wildcard<S>>,
    /// Those of any address, by the groups that they are members of.
    members: HashMap<IpAddr, Vec<Member<S>>>,
    /// The groups of which one of these does not get all.
    filtered: HashSet<IpAddr>,
    /// Those that any group may be for, and those that the kernel has for good, as of a number of
    /// [`commits`]; `None`: to be looked for.
    of_any_group: Option<(u64, Vec<S>)>,
    state: Option<PortState>,
}

#[derive(Debug)]
struct Member<S> {
    socket: S,
    is_filtered: bool,
}

/// What sockets that may have datagrams to any group were when the port's groups were last brought
/// in line. As long as nothing of it changes, a socket that comes or goes has to do with its own
/// groups only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortState {
    pub(crate) links: Vec<LinkState>,
    /// For which versions one of them is the kernel's for good.
    pub(crate) committed: Versions,
    /// Where the rules are that were in force for them.
    pub(crate) rules: Vec<usize>,
    /// Sockets of others; `None`: the kernel does not say.
    pub(crate) others: Option<Arc<[PortUser]>>,
}

/// The same of the groups of one version that come in on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkState {
    pub(crate) index: u32,
    pub(crate) is_v6: bool,
    /// One of ours is to have what comes to any group.
    pub(crate) is_used: bool,
    /// Nothing keeps such groups with the kernel.
    pub(crate) is_able: bool,
    /// All such sockets are among the receivers.
    pub(crate) is_complete: bool,
    /// How many groups are taken; `None`: the interface is closed.
    pub(crate) steered: Option<usize>,
}

impl PortState {
    /// The groups that have to be looked at because it is this and was `other`; `None`: all. How
    /// many are taken does not count if `but_steered`.
    pub(crate) fn groups_between(&self, other: &Self, but_steered: bool) -> Option<Vec<IpAddr>> {
        let is_like = |(one, other): (&LinkState, &LinkState)| {
            let is_open = one.steered.is_some() == other.steered.is_some();
            let steered = if but_steered && is_open {
                other.steered
            } else {
                one.steered
            };
            LinkState { steered, ..*one } == *other
        };
        let are_like = self.links.len() == other.links.len()
            && self.links.iter().zip(&other.links).all(is_like)
            && (self.committed, &self.rules) == (other.committed, &other.rules);
        match (&self.others, &other.others) {
            _ if !are_like => None,
            (None, None) => Some(Vec::new()),
            (Some(now), Some(before)) => groups_of_others(now, before),
            _ => None,
        }
    }
}

/// The groups that some of two lists of others are bound to, if they are not the same; `None`: not
/// only these.
fn groups_of_others(now: &[PortUser], before: &[PortUser]) -> Option<Vec<IpAddr>> {
    let new = now.iter().filter(|it| !before.contains(it));
    let gone = before.iter().filter(|it| !now.contains(it));
    let mut groups = Vec::new();
    for user in new.chain(gone) {
        let ip = user.local.ip().to_canonical();
        if ip.is_unspecified() {
            return None;
        }
        groups.extend(ip.is_multicast().then_some(ip));
    }
    Some(groups)
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
            filtered: HashSet::new(),
            of_any_group: None,
            state: None,
        }
    }
}

impl<S: Stack> AtPort<S> {
    fn add(&mut self, socket: S, groups: &SocketGroups<S>, ip: IpAddr) {
        if !ip.is_unspecified() {
            self.by_address.entry(ip).or_default().push(socket);
            return;
        }
        let is_for_any_group = groups.is_for_any(socket.core().is_committed());
        if is_for_any_group {
            self.of_any_group = None;
        }
        self.wildcards.push(Wildcard {
            socket,
            is_for_any_group: groups.is_for_any(false),
        });
        for group in groups.memberships.groups() {
            self.set_member(socket, groups, group);
        }
    }

    fn remove(&mut self, socket: S, groups: &SocketGroups<S>, ip: IpAddr) {
        if !ip.is_unspecified() {
            take_out(&mut self.by_address, ip, socket);
            return;
        }
        let is_it = |it: &Wildcard<S>| is_same(it.socket, socket);
        if let Some(place) = self.wildcards.iter().position(is_it) {
            let it = self.wildcards.swap_remove(place);
            if it.is_for_any_group || socket.core().is_committed() {
                self.of_any_group = None;
            }
        }
        for group in groups.memberships.groups() {
            self.take_member_out(socket, group);
        }
    }

    fn set_member(&mut self, socket: S, groups: &SocketGroups<S>, group: IpAddr) {
        let mut filters = groups.memberships.of(group).iter().map(|it| &it.1);
        let is_filtered = !filters.all(SourceFilter::is_none);
        let members = self.members.entry(group).or_default();
        match members.iter_mut().find(|it| is_same(it.socket, socket)) {
            Some(known) => known.is_filtered = is_filtered,
            None => members.push(Member {
                socket,
                is_filtered,
            }),
        }
        self.note_filters(group);
    }

    fn take_member_out(&mut self, socket: S, group: IpAddr) {
        if let Some(members) = self.members.get_mut(&group) {
            members.retain(|it| !is_same(it.socket, socket));
            if members.is_empty() {
                self.members.remove(&group);
            }
            self.note_filters(group);
        }
    }

    fn note_filters(&mut self, group: IpAddr) {
        let mut members = self.members.get(&group).into_iter().flatten();
        if members.any(|it| it.is_filtered) {
            self.filtered.insert(group);
        } else {
            self.filtered.remove(&group);
        }
    }

    /// Groups that sockets are bound to.
    fn bound(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let addresses = self.by_address.keys();
        addresses.filter(|ip| ip.is_multicast()).copied()
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
            let there = ports.get_mut(&to.port());
            if let Some(there) = there.filter(|_| to.ip().is_unspecified())
                && let mut wildcards = there.wildcards.iter_mut()
                && let Some(it) = wildcards.find(|it| is_same(it.socket, socket))
                && it.is_for_any_group != groups.is_for_any(false)
            {
                it.is_for_any_group = !it.is_for_any_group;
                there.of_any_group = None;
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

    /// The socket has become a member of a group, is none any more, or gets other sources'
    /// datagrams.
    pub(crate) fn member(&self, socket: S, groups: &SocketGroups<S>, group: IpAddr) {
        let mut ports = self.lock();
        let local = groups.local;
        let Some(there) = ports
            .get_mut(&local.port())
            .filter(|_| local.ip().is_unspecified())
        else {
            return;
        };
        if groups.memberships.of(group).is_empty() {
            there.take_member_out(socket, group);
        } else {
            there.set_member(socket, groups, group);
        }
    }

    /// The sockets of a port that may have datagrams to any group, whether they are members of it
    /// or not, and those that the kernel has for good.
    pub(crate) fn of_any_group(&self, port: u16) -> Vec<S> {
        let mut ports = self.lock();
        let Some(there) = ports.get_mut(&port) else {
            return Vec::new();
        };
        let as_of = commits();
        match &there.of_any_group {
            Some((known, sockets)) if *known == as_of => sockets.clone(),
            _ => {
                let is_one =
                    |it: &&Wildcard<S>| it.is_for_any_group || it.socket.core().is_committed();
                let wildcards = there.wildcards.iter().filter(is_one);
                let sockets: Vec<_> = wildcards.map(|it| it.socket).collect();
                there.of_any_group = Some((as_of, sockets.clone()));
                sockets
            }
        }
    }

    /// The sockets of a port that are members of a group or bound to it.
    pub(crate) fn of_group(&self, port: u16, group: IpAddr) -> Vec<S> {
        let ports = self.lock();
        let Some(there) = ports.get(&port) else {
            return Vec::new();
        };
        let members = there.members.get(&group).into_iter().flatten();
        let bound = there.by_address.get(&group).into_iter().flatten();
        members.map(|it| it.socket).chain(bound.copied()).collect()
    }

    /// All sockets of a port that may have datagrams to groups.
    pub(crate) fn of_groups(&self, port: u16) -> Vec<S> {
        let ports = self.lock();
        let there = || ports.get(&port).into_iter();
        let wildcards = there().flat_map(|it| &it.wildcards).map(|it| it.socket);
        let by_address = there().flat_map(|it| &it.by_address);
        let bound = by_address.filter(|(ip, _)| ip.is_multicast());
        wildcards
            .chain(bound.flat_map(|it| it.1).copied())
            .collect()
    }

    /// Whether a socket for any address is a member of a group.
    pub(crate) fn has_members(&self, port: u16) -> bool {
        let ports = self.lock();
        ports.get(&port).is_some_and(|it| !it.members.is_empty())
    }

    /// The groups that sockets of a port are members of or bound to.
    pub(crate) fn groups(&self, port: u16) -> Vec<IpAddr> {
        let ports = self.lock();
        let there = || ports.get(&port).into_iter();
        let members = there().flat_map(|it| it.members.keys().copied());
        members.chain(there().flat_map(AtPort::bound)).collect()
    }

    /// Those of them of which, perhaps, nobody gets all: who receives from every group would get
    /// what the kernel lets pass for others.
    pub(crate) fn filtered_groups(&self, port: u16) -> Vec<IpAddr> {
        let ports = self.lock();
        let there = || ports.get(&port).into_iter();
        let filtered = there().flat_map(|it| it.filtered.iter().copied());
        filtered.chain(there().flat_map(AtPort::bound)).collect()
    }

    pub(crate) fn state(&self, port: u16) -> Option<PortState> {
        self.lock().get(&port)?.state.clone()
    }

    pub(crate) fn set_state(&self, port: u16, state: Option<PortState>) {
        if let Some(there) = self.lock().get_mut(&port) {
            there.state = state;
        }
    }

    /// Those for any address of this host, if anybody at the port is for groups, too. So many of
    /// them at most.
    pub(crate) fn wildcards_beside_groups(&self, port: u16, most: usize) -> Vec<S> {
        let ports = self.lock();
        let is_for_groups = |it: &&AtPort<S>| !it.members.is_empty() || it.bound().next().is_some();
        let there = ports.get(&port).filter(is_for_groups);
        let wildcards = there.into_iter().flat_map(|it| &it.wildcards);
        wildcards.take(most).map(|it| it.socket).collect()
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
