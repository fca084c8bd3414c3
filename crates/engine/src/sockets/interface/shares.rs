//! Flows that several sockets of the process have together (`SO_REUSEPORT`): what one sender sends goes to one of them, always the
//! same as long as there are as many, as in the kernel (`reuseport_select_sock`, net/core/sock_reuseport.c).

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ptr;

use dev_core::Flow;

use crate::sockets::delivery::Parsed;
use crate::sockets::interface::Interface;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::sys;

/// Who shares a local address; at least two each.
#[derive(Debug)]
pub(super) struct Shares<S> {
    members: HashMap<SocketAddr, Vec<S>>,
    /// So that nobody can choose the socket, as the kernel's secret of its own.
    secret: u64,
}

impl<S: Stack> Shares<S> {
    pub(super) fn new() -> Self {
        Self {
            members: HashMap::new(),
            secret: sys::random(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The socket that gets a packet for which there is `owner`: that one, unless others have the same address.
    pub(super) fn choose(&self, packet: &Parsed, owner: S) -> S {
        let Some(members) = self.members.get(&packet.destination()) else {
            return owner;
        };
        if !members.iter().any(|member| is_it(*member, owner.core())) {
            // A connected one.
            return owner;
        }
        let index = place(self.secret, packet.source(), members.len());
        members.get(index).copied().unwrap_or(owner)
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

fn is_it<S: Stack>(one: S, other: &SocketCore<S>) -> bool {
    ptr::eq(one.core(), other)
}

impl<S: Stack> Interface<S> {
    /// Lets a socket have part of a flow that is another's.
    pub(crate) fn share(&self, flow: &Flow, owner: S, socket: S) {
        let mut tables = self.rx.lock_all();
        let members = tables.shares.members.entry(flow.local).or_default();
        for new in [owner, socket] {
            if !members.iter().any(|member| is_it(*member, new.core())) {
                members.push(new);
            }
        }
    }

    /// The other sockets that have part of a flow.
    pub(crate) fn sharers(&self, flow: &Flow, socket: &SocketCore<S>) -> Vec<S> {
        let guard = self.rx.lock(0);
        let Some(members) = guard.common().shares.members.get(&flow.local) else {
            return Vec::new();
        };
        let others = members.iter().filter(|member| !is_it(**member, socket));
        if flow.peer.is_none() {
            others.copied().collect()
        } else {
            Vec::new()
        }
    }

    /// Takes a flow away from a socket: it is left to the others that have it, or to the kernel.
    pub(crate) fn leave_flow(&self, flow: &Flow, socket: &SocketCore<S>) {
        if flow.peer.is_some() || !self.leave_share(flow, socket) {
            self.detach(flow);
        }
    }

    /// `false`: it has the flow alone.
    fn leave_share(&self, flow: &Flow, socket: &SocketCore<S>) -> bool {
        let mut tables = self.rx.lock_all();
        let tables = &mut *tables;
        let Some(members) = tables.shares.members.get_mut(&flow.local) else {
            return false;
        };
        let Some(place) = members.iter().position(|member| is_it(*member, socket)) else {
            return false;
        };
        // The last one takes its place, as in the kernel.
        members.swap_remove(place);
        if let Some(first) = members.first().copied() {
            tables.flows.remove(flow);
            let _ = tables.flows.insert(flow, first);
        }
        if members.len() < 2 {
            tables.shares.members.remove(&flow.local);
        }
        true
    }
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
