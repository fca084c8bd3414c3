//! Flows that several sockets have together: who has a part.

use dev_core::Flow;

use crate::interface::Interface;
use crate::receiver::{Identity, Receiver};

impl<S: Receiver> Interface<S> {
    /// Lets a socket have part of a flow that is another's.
    pub(super) fn share(&self, flow: &Flow, owner: S, socket: S) {
        self.rx.lock_all().reuseport.add(flow, owner, socket);
    }

    /// The other sockets that have part of a flow.
    pub fn sharers(&self, flow: &Flow, socket: Identity) -> Vec<S> {
        self.rx.lock(0).common().reuseport.others(flow, socket)
    }

    /// Takes a flow away from a socket: it is left to the others that have it, or to the kernel.
    pub fn leave_flow(&self, flow: &Flow, socket: Identity) {
        if flow.peer.is_some() || !self.leave_share(flow, socket) {
            self.detach(flow);
        }
    }

    /// `false`: it has the flow alone.
    fn leave_share(&self, flow: &Flow, socket: Identity) -> bool {
        let mut tables = self.rx.lock_all();
        let tables = &mut *tables;
        tables.reuseport.remove(&mut tables.flows, flow, socket)
    }
}
