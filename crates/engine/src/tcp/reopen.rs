//! The addresses of a connection that is over, and that nobody has any more, for a new one: a peer
//! that uses its port again is let in as by the kernel, also within the moment for which the old
//! connection is still here, and so is a client of this process.

use std::net::SocketAddr;

use links::delivery;
use links::family::local_address;

use ::tcp::{Header, State};
use dev_core::Protocol;

use crate::sockets::host::Host;
use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::globals::Globals;
use crate::tcp::socket::{Role, TcpSocket, TcpStack};
use crate::tcp::state::exempt::opens;
use crate::tcp::state::orphan::Orphan;
use crate::tcp::state::reopenings::Reopening;
use crate::tcp::state::time_wait::Wait;
use crate::tcp::state::unmatched::UnmatchedSegment;
use crate::tcp::stream::Stream;
use crate::tcp::to_kernel::hand_over::send_on;
use links::interface::Interface;

impl<S: TcpStack> Globals<S> {
    /// In the internal thread, when it has ended what was over: has those opened whose addresses
    /// are free.
    pub(crate) fn open_again(&self, host: &Host<S>) {
        for Reopening {
            interface,
            segment,
            origin,
        } in self.reopenings.take()
        {
            let (local, peer) = delivery::ends(&segment, origin.link_index);
            let owner = interface.owner_of(Protocol::Tcp, local, peer);
            match owner.and_then(S::as_tcp) {
                Some(owner) => owner.take_opening(&segment, origin),
                // The kernel knows who listens, or resets it.
                None => {
                    if let Some(raw) = host.return_socket() {
                        send_on(
                            raw,
                            &UnmatchedSegment::new(&segment, origin.link_index, None),
                        );
                    }
                }
            }
        }
    }
}

impl<S: Stack> Stream<S> {
    /// Whether a segment opens a connection for which this one, which is over and nobody's, is to
    /// [give way](Self::gives_way).
    #[inline]
    pub(super) fn is_in_the_way_of(&self, header: &Header) -> bool {
        self.orphan.is_some() && opens(header.flags) && self.is_over_for(header)
    }

    #[cold]
    fn is_over_for(&self, syn: &Header) -> bool {
        match self.connection.state() {
            State::Closed => true,
            State::TimeWait => self.wait != Wait::Kernels && self.connection.accepts_syn(syn),
            _ => false,
        }
    }

    /// It waits no more.
    #[cold]
    pub(super) fn gives_way(&mut self) {
        if self.owes_time_wait() {
            self.wait = Wait::Here;
        }
    }
}

impl<S: TcpStack> TcpSocket<S> {
    /// The kernel does not let the socket connect to `peer`, as its addresses are taken. Returns
    /// whether that was by a connection of this process that is over and that nobody has: it has
    /// left them. Under the control lock.
    #[cold]
    pub(super) fn makes_room(
        &self,
        host: &Host<S>,
        peer: SocketAddr,
        interface: &'static Interface<S>,
    ) -> bool {
        let Some(local) = local_address(self.fd()) else {
            return false;
        };
        // Its end may have come already.
        interface.poll_all();
        let owner = interface.owner_of(Protocol::Tcp, local, peer);
        let owner = owner.and_then(S::as_tcp);
        owner.is_some_and(|owner| owner.leaves_addresses(host))
    }

    fn leaves_addresses(&self, host: &Host<S>) -> bool {
        let waits = match &mut *self.role.lock() {
            Role::Stream(stream) if stream.is_abandoned_and_over() => {
                stream.owes_time_wait() && stream.may_wait_in_kernel(self.globals, now())
            }
            _ => return false,
        };
        if waits {
            self.leave_time_wait(host);
        } else {
            self.drop_flows();
        }
        if let Role::Stream(stream) = &mut *self.role.lock() {
            // With it goes the kernel's socket.
            stream.orphan = stream.orphan.take().map(Orphan::without_copy);
        }
        true
    }
}
