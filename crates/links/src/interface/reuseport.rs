//! Flows that several sockets of the process have together (`SO_REUSEPORT`): what one sender sends
//! goes to one of them, always the same as long as there are as many, as in the kernel
//! (`reuseport_select_sock`, net/core/sock_reuseport.c).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use dev_core::{Flow, FlowTable, Protocol, at_any_address};

use crate::delivery::Parsed;
use crate::receiver::{Identity, Receiver};

/// Who shares a local address.
#[derive(Debug)]
struct Group<S> {
    /// At least two.
    members: Vec<S>,
    /// Peers that one of them waits for since there were other members, and at which address. Those
    /// that have come to an end meanwhile may be among them.
    waited_for: HashMap<(SocketAddr, SocketAddr), S>,
}

/// The addresses that are shared.
#[derive(Debug)]
pub(super) struct ReusePort<S> {
    groups: HashMap<(Protocol, SocketAddr), Group<S>>,
    /// So that nobody can choose the socket, as the kernel's secret of its own.
    secret: u64,
}

impl<S: Receiver> ReusePort<S> {
    pub(super) fn new() -> Self {
        Self {
            groups: HashMap::new(),
            secret: sys::random(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The socket that gets a packet for which there is `owner`: that one, unless others have the
    /// same address.
    pub(super) fn choose(&self, flows: &FlowTable<S>, packet: &Parsed, owner: S) -> S {
        let ends = (packet.source(), packet.destination());
        self.choose_between(flows, packet.protocol(), ends, owner)
    }

    /// The same by what the packet is looked up by.
    pub(super) fn choose_between(
        &self,
        flows: &FlowTable<S>,
        protocol: Protocol,
        (source, destination): (SocketAddr, SocketAddr),
        owner: S,
    ) -> S {
        if !owner.may_share() {
            return owner;
        }
        let group = self.groups.get(&(protocol, destination));
        let Some(Group {
            members,
            waited_for,
        }) = group.or_else(|| self.groups.get(&(protocol, at_any_address(destination))))
        else {
            return owner;
        };
        let is_exact =
            || protocol == Protocol::Tcp && flows.is_exact(protocol, source, destination);
        if !members
            .iter()
            .any(|member| member.identity() == owner.identity())
            || is_exact()
        {
            // A connected one.
            return owner;
        }
        if let Some(waiting) = waited_for.get(&(source, destination)) {
            return *waiting;
        }
        let index = place(self.secret, source, members.len());
        members.get(index).copied().unwrap_or(owner)
    }

    /// Lets a socket have part of a flow that is another's.
    pub(super) fn add(&mut self, flow: &Flow, owner: S, socket: S) {
        let group = self.groups.entry(key(flow));
        let group = group.or_insert_with(|| Group {
            members: vec![owner],
            waited_for: HashMap::new(),
        });
        let is_there = |it: S| {
            group
                .members
                .iter()
                .any(|member| member.identity() == it.identity())
        };
        if !is_there(socket) {
            group.changes(flow.local);
            group.members.push(socket);
        }
    }

    /// The other sockets that have part of a flow.
    pub(super) fn others(&self, flow: &Flow, socket: Identity) -> Vec<S> {
        let group = self.groups.get(&key(flow));
        let Some(group) = group.filter(|_| flow.peer.is_none()) else {
            return Vec::new();
        };
        let others = group
            .members
            .iter()
            .filter(|member| member.identity() != socket);
        others.copied().collect()
    }

    /// Takes its part of a flow away from a socket. `false`: it has the flow alone.
    pub(super) fn remove(
        &mut self,
        flows: &mut FlowTable<S>,
        flow: &Flow,
        socket: Identity,
    ) -> bool {
        let Some(group) = self.groups.get_mut(&key(flow)) else {
            return false;
        };
        let members = &mut group.members;
        let Some(place) = members
            .iter()
            .position(|member| member.identity() == socket)
        else {
            return false;
        };
        // The last one takes its place, as in the kernel.
        members.swap_remove(place);
        if let Some(first) = members.first().copied() {
            flows.remove(flow);
            let _ = flows.insert(flow, first);
        }
        if members.len() < 2 {
            self.groups.remove(&key(flow));
        } else {
            group.changes(flow.local);
        }
        true
    }
}

/// The place of a sender among so many: the upper bits of a product (`reciprocal_scale`).
fn place(secret: u64, source: SocketAddr, count: usize) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let ip = match source.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)) << 16,
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            // The lowest bits are the port's.
            ((bits >> 64) as u64 ^ bits as u64).wrapping_mul(ODD)
        }
    };
    let mut hash = ip ^ u64::from(source.port()) ^ secret;
    for _ in 0..2 {
        hash = hash.wrapping_mul(ODD);
        hash ^= hash >> 32;
    }
    (((hash & 0xffff_ffff) * count as u64) >> 32) as usize
}

impl<S: Receiver> Group<S> {
    /// The members are others from here on: what comes for connections that wait stays with those
    /// that had it. To be called before they come, and after one has gone.
    fn changes(&mut self, local: SocketAddr) {
        self.waited_for.clear();
        for member in &self.members {
            member.each_waiting(local, &mut |local, peer| {
                // As packets have them.
                let end = |end: SocketAddr| SocketAddr::new(end.ip(), end.port());
                self.waited_for.insert((end(peer), end(local)), *member);
            });
        }
    }
}

fn key(flow: &Flow) -> (Protocol, SocketAddr) {
    (flow.protocol, flow.local)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_are_spread_and_stay() {
        for count in 1..5 {
            let mut counts = vec![0; count];
            for port in 1..4001_u16 {
                let source = SocketAddr::new([10, 0, 0, 1].into(), port);
                let chosen = place(7, source, count);
                assert_eq!(chosen, place(7, source, count));
                counts[chosen] += 1;
            }
            let (least, most) = (counts.iter().min(), counts.iter().max());
            assert!(most.unwrap() - least.unwrap() < 300, "{counts:?}");
        }
    }
}
