//! Whose packets are: flows, and what steers them past the kernel.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use dev_core::{Backend, Flow, Protocol, Steering};

use crate::interface::Interface;
use crate::interface::receive_ring::Tables;
use crate::receiver::Receiver;

impl<S: Receiver> Interface<S> {
    /// Gives a flow's packets to a socket. `Err(Some(owner))`: the flow belongs to another socket;
    /// `Err(None)`: the steering refused it.
    pub fn attach(&self, flow: &Flow, socket: S) -> Result<(), Option<S>> {
        self.attach_by(flow, socket, |steering| steering.add(flow))
    }

    /// The same with the port of a kernel socket that others may have, too: other processes, see
    /// [`Steering::join`], and in this one those that `shares` says it of.
    pub fn attach_joining(
        &self,
        flow: &Flow,
        socket: S,
        kernels: BorrowedFd<'_>,
        shares: impl FnOnce(S) -> bool,
    ) -> Result<(), Option<S>> {
        let attached = self.attach_by(flow, socket, |steering| steering.join(flow, kernels));
        let Err(Some(owner)) = attached else {
            return attached;
        };
        if !shares(owner) {
            return Err(Some(owner));
        }
        self.share(flow, owner, socket);
        self.join_again(flow, kernels);
        Ok(())
    }

    fn attach_by(
        &self,
        flow: &Flow,
        socket: S,
        steer: impl FnOnce(&<S::Backend as Backend>::Steering) -> io::Result<()>,
    ) -> Result<(), Option<S>> {
        // The owner is known before the first packet can come.
        self.rx
            .lock_all()
            .flows
            .insert(flow, socket)
            .map_err(Some)?;
        steer(&self.steering).map_err(|error| {
            log::warn!(
                "{}: cannot steer {flow:?} to user space: {error}",
                self.spec.name
            );
            self.detach(flow);
            None
        })
    }

    /// Another socket of this process has part of a port that it has joined, if others may.
    fn join_again(&self, flow: &Flow, kernels: BorrowedFd<'_>) {
        if self.is_joint()
            && let Err(error) = self.steering.join(flow, kernels)
        {
            log::debug!("{}: {flow:?}: {error}", self.spec.name);
        }
    }

    /// Whether other processes can have part of its ports.
    pub fn is_joint(&self) -> bool {
        self.steering.is_joint()
    }

    /// Whether all of these sockets, by their inodes, have part of a flow, in whichever processes.
    pub fn have_joined(&self, flow: &Flow, inodes: &[u64]) -> bool {
        self.steering.have_joined(flow, inodes)
    }

    /// Gives a flow's packets, which were another socket's so far, to a socket. `change` runs when
    /// no packet is on its way. `false`: the steering refused it, or it is taken; then `change` has
    /// not run.
    pub fn take_over(&self, flow: &Flow, socket: S, change: impl FnOnce()) -> bool {
        if self.steering.add(flow).is_err() {
            let _ = self.steering.remove(flow);
            return false;
        }
        let mut tables = self.rx.lock_all();
        let is_free = tables.flows.insert(flow, socket).is_ok();
        if is_free {
            change();
        }
        is_free
    }

    /// Leaves a connection's packets to the kernel, if all that reaches its port comes past it (see
    /// [`Steering::exempt`]). Returns whether that was so.
    pub fn exempt(&self, flow: &Flow) -> io::Result<bool> {
        if self.is_lost() {
            return Ok(false);
        }
        let exempt = self.steering.exempt(flow);
        match &exempt {
            Ok(true) => self.count_exemptions(),
            Ok(false) => {}
            Err(_) => self.queue_stats.exempt_refused.add(1),
        }
        exempt
    }

    pub(super) fn count_exemptions(&self) {
        let count = self.steering.exemptions();
        self.queue_stats.exempt.set(count as u64);
    }

    /// Takes that back.
    pub fn end_exemption(&self, flow: &Flow) {
        if let Err(error) = self.steering.end_exemption(flow)
            && !self.is_lost()
        {
            log::debug!("{}: {flow:?} stays the kernel's: {error}", self.spec.name);
        }
        self.count_exemptions();
    }

    /// The socket that gets packets from `peer` to `local`.
    pub fn owner_of(&self, protocol: Protocol, local: SocketAddr, peer: SocketAddr) -> Option<S> {
        let guard = self.rx.lock(0);
        let Tables {
            flows, reuseport, ..
        } = guard.common();
        let owner = flows.look_up(protocol, peer, local)?;
        // As packets have them: without a link.
        let end = |end: SocketAddr| SocketAddr::new(end.ip(), end.port());
        Some(reuseport.choose_between(flows, protocol, (end(peer), end(local)), owner))
    }

    /// Whether a connection has just this flow.
    pub fn has_connection(&self, flow: &Flow) -> bool {
        let guard = self.rx.lock(0);
        let flows = &guard.common().flows;
        flow.peer
            .is_some_and(|peer| flows.is_exact(flow.protocol, peer, flow.local))
    }

    /// Leaves a flow's packets to the kernel. Those that are in the receiving rings already are
    /// delivered first.
    pub fn detach(&self, flow: &Flow) {
        self.stop_steering(flow);
        self.rx.lock_all().flows.remove(flow);
    }

    /// What has come so far is delivered before this returns.
    pub(super) fn stop_steering(&self, flow: &Flow) {
        if let Err(error) = self.steering.remove(flow)
            && !self.is_lost()
        {
            // Nobody would receive them: the process may have given up its privileges, or a filter
            // denies bpf(2).
            log::warn!(
                "{}: cannot leave {flow:?} to the kernel, so it gets the whole interface: {error}",
                self.spec.name
            );
            self.mark_lost();
        }
        (0..self.receivers.count()).for_each(|ring| {
            self.drain_ring(ring);
        });
    }
}
