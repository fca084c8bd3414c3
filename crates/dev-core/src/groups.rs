//! Multicast groups: every socket that receives a group's datagrams gets each of them.

use std::collections::{HashMap, HashSet};
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
pub struct GroupMember<T> {
    /// Who it is.
    pub value: T,
    /// The only sender whose datagrams it gets, if there is one.
    pub peer: Option<SocketAddr>,
    /// Whose datagrams it gets.
    pub sources: SourceFilter,
}

impl<T> GroupMember<T> {
    #[inline]
    fn gets_from(&self, source: SocketAddr) -> bool {
        self.peer.is_none_or(|peer| peer == source) && self.sources.allows(source.ip())
    }
}

/// The receivers of a group's datagrams to one port, but for those of all groups there.
#[derive(Debug)]
struct Group<T> {
    receivers: Vec<GroupMember<T>>,
    is_steered: bool,
}

impl<T> Default for Group<T> {
    fn default() -> Self {
        Self {
            receivers: Vec::new(),
            is_steered: false,
        }
    }
}

/// A port of one version of IP.
type Port = (u16, bool);

/// What concerns all groups of a port: thousands of sockets may receive from thousands of groups
/// there, and are known once.
#[derive(Debug)]
struct AtPort<T> {
    receivers: Vec<AnyReceiver<T>>,
    /// The groups whose datagrams are taken from the kernel.
    steered: HashSet<IpAddr>,
}

/// One of those who receive from every group of a port.
#[derive(Debug)]
struct AnyReceiver<T> {
    receiver: GroupMember<T>,
    /// Groups of which it is a receiver of its own, with a filter.
    except: HashSet<IpAddr>,
}

impl<T> Default for AtPort<T> {
    fn default() -> Self {
        Self {
            receivers: Vec::new(),
            steered: HashSet::new(),
        }
    }
}

/// Maps the addresses of multicast groups to those who receive from them. Flow label and scope of a
/// group's address do not count; the scope of a source's does.
#[derive(Debug)]
pub struct GroupTable<T> {
    v4: HashMap<u64, Group<T>, FlowHash>,
    v6: HashMap<V6Key, Group<T>>,
    ports: HashMap<Port, AtPort<T>>,
    /// How many receive from every group of some port.
    any_count: usize,
}

impl<T> Default for GroupTable<T> {
    fn default() -> Self {
        Self {
            v4: HashMap::default(),
            v6: HashMap::default(),
            ports: HashMap::default(),
            any_count: 0,
        }
    }
}

impl<T: Copy> GroupTable<T> {
    /// Adds a receiver. One that is there already, by `is_same`, is replaced.
    pub fn add(
        &mut self,
        address: SocketAddr,
        receiver: GroupMember<T>,
        is_same: impl Fn(&T) -> bool,
    ) {
        if let Some(it) = self.any_receiver(port_of(address), &is_same) {
            it.except.insert(address.ip());
        }
        let group = self.group_or_new(address);
        match group.receivers.iter_mut().find(|it| is_same(&it.value)) {
            Some(known) => *known = receiver,
            None => group.receivers.push(receiver),
        }
    }

    /// Removes a receiver, and the group with its last one, unless it is taken from the kernel for
    /// those of all groups.
    pub fn remove(&mut self, address: SocketAddr, is_same: impl Fn(&T) -> bool) {
        if let Some(it) = self.any_receiver(port_of(address), &is_same) {
            it.except.remove(&address.ip());
        }
        if let Some(group) = self.group_mut(address) {
            group.receivers.retain(|it| !is_same(&it.value));
            self.forget_if_unused(address);
        }
    }

    /// Adds one who receives from every group of a port that is taken, of IPv4 or IPv6, but for
    /// those in which it has a place of its own (`except`). One that is there already is replaced.
    pub fn add_to_any(
        &mut self,
        port: (u16, bool),
        receiver: GroupMember<T>,
        except: HashSet<IpAddr>,
        is_same: impl Fn(&T) -> bool,
    ) {
        let new = AnyReceiver { receiver, except };
        if let Some(known) = self.any_receiver(port, &is_same) {
            *known = new;
        } else {
            let here = self.ports.entry(port).or_default();
            here.receivers.push(new);
            self.any_count += 1;
        }
    }

    /// Removes one who receives from every group of a port.
    pub fn remove_from_any(&mut self, port: (u16, bool), is_same: impl Fn(&T) -> bool) {
        let Some(here) = self.ports.get_mut(&port) else {
            return;
        };
        let is_it = |it: &AnyReceiver<T>| is_same(&it.receiver.value);
        if let Some(place) = here.receivers.iter().position(is_it) {
            here.receivers.swap_remove(place);
            self.any_count -= 1;
        }
        if !here.receivers.is_empty() {
            return;
        }
        // Nobody may be left in some of them.
        let here = here.steered.iter();
        let groups: Vec<_> = here.map(|ip| SocketAddr::new(*ip, port.0)).collect();
        for address in groups {
            if self
                .group(address)
                .is_some_and(|it| it.receivers.is_empty())
            {
                self.set_steered(address, false);
            }
        }
        self.forget_port_if_unused(port);
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
        let of_any = if self.any_count == 0 || group.is_none() {
            &[][..]
        } else {
            self.of_any(destination)
        };
        let ip = destination.ip();
        let of_any = of_any
            .iter()
            .filter(move |it| it.except.is_empty() || !it.except.contains(&ip));
        receivers
            .iter()
            .chain(of_any.map(|it| &it.receiver))
            .filter(move |receiver| receiver.gets_from(source))
            .map(|receiver| receiver.value)
    }

    #[cold]
    fn of_any(&self, destination: SocketAddr) -> &[AnyReceiver<T>] {
        let here = self.ports.get(&port_of(destination));
        here.map_or(&[], |here| &here.receivers)
    }

    /// Whether the group's datagrams are taken from the kernel.
    pub fn is_steered(&self, address: SocketAddr) -> bool {
        let group = self.group(address);
        group.is_some_and(|group| group.is_steered)
    }

    /// Whether those of any group are.
    pub fn any_steered(&self) -> bool {
        self.ports.values().any(|here| !here.steered.is_empty())
    }

    /// The groups of a port, of IPv4 or IPv6, that are taken from the kernel.
    pub fn steered(&self, port: (u16, bool)) -> impl Iterator<Item = IpAddr> + '_ {
        let here = self.ports.get(&port).into_iter();
        here.flat_map(|here| &here.steered).copied()
    }

    /// How many that are.
    pub fn steered_count(&self, port: (u16, bool)) -> usize {
        self.ports.get(&port).map_or(0, |here| here.steered.len())
    }

    /// Whether somebody but this one receives from every group of a port.
    pub fn any_has_others(&self, port: (u16, bool), is_same: impl Fn(&T) -> bool) -> bool {
        let here = self.ports.get(&port).into_iter();
        let mut receivers = here.flat_map(|here| &here.receivers);
        receivers.any(|it| !is_same(&it.receiver.value))
    }

    /// Says whether they are. Nothing to say of a group without receivers.
    pub fn set_steered(&mut self, address: SocketAddr, is_steered: bool) {
        let port = port_of(address);
        let here = self.ports.get(&port);
        let has_any = here.is_some_and(|here| !here.receivers.is_empty());
        if is_steered && !has_any && self.group(address).is_none() {
            return;
        }
        let ip = address.ip();
        if is_steered {
            self.group_or_new(address).is_steered = true;
            self.ports.entry(port).or_default().steered.insert(ip);
            return;
        }
        if let Some(group) = self.group_mut(address) {
            group.is_steered = false;
        }
        self.forget_if_unused(address);
    }

    /// A group that nobody receives from, or only those of all groups while it is the kernel's,
    /// needs no place.
    fn forget_if_unused(&mut self, address: SocketAddr) {
        let port = port_of(address);
        let here = self.ports.get(&port);
        let has_any = here.is_some_and(|here| !here.receivers.is_empty());
        let Some(group) = self.group_mut(address) else {
            return;
        };
        let is_steered = group.is_steered;
        let is_used = !group.receivers.is_empty() || is_steered && has_any;
        if !is_used {
            match address {
                SocketAddr::V4(group) => self.v4.remove(&v4_place(group)),
                SocketAddr::V6(_) => self.v6.remove(&v6_place(address)),
            };
        }
        if (!is_used || !is_steered)
            && let Some(here) = self.ports.get_mut(&port)
        {
            here.steered.remove(&address.ip());
            self.forget_port_if_unused(port);
        }
    }

    fn forget_port_if_unused(&mut self, port: Port) {
        let here = self.ports.get(&port);
        if here.is_some_and(|it| it.receivers.is_empty() && it.steered.is_empty()) {
            self.ports.remove(&port);
        }
    }

    fn any_receiver(
        &mut self,
        port: Port,
        is_same: impl Fn(&T) -> bool,
    ) -> Option<&mut AnyReceiver<T>> {
        let mut here = self.ports.get_mut(&port)?.receivers.iter_mut();
        here.find(|it| is_same(&it.receiver.value))
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

    fn group_or_new(&mut self, address: SocketAddr) -> &mut Group<T> {
        match address {
            SocketAddr::V4(group) => self.v4.entry(v4_place(group)).or_default(),
            SocketAddr::V6(_) => self.v6.entry(v6_place(address)).or_default(),
        }
    }
}

fn port_of(address: SocketAddr) -> Port {
    (address.port(), address.is_ipv6())
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
mod tests;
