//! The rings by which a socket receives follow who receives.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use links::interface::Interface;
use links::interface::own_ring::OwnRing;
use links::interface::ring_set::RingSet;
use links::rings::{Migration, RingUser};

use crate::sockets::attachment::Attachment;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

impl<S: Stack> SocketCore<S> {
    /// The socket receives from an interface from here on, what comes to `local`. Under the control
    /// lock.
    pub(crate) fn begin_receiving(&self, interface: &'static Interface<S>, local: IpAddr) {
        if !interface.has_several_rings() {
            return self.interfaces.add(interface, RingSet::of(0));
        }
        let mut attachment = self.attachment();
        let policy = attachment.ring_choice.receive(interface.receiving_policy());
        let own = &mut attachment.own_rings;
        let user = *own.user.get_or_insert_with(|| {
            own.migration = Migration::new(policy);
            RingUser::present(policy, self.number())
        });
        if own.of(interface).is_none() {
            own.rings.push(interface.own_ring(user, local));
        }
        let ring = own.of(interface).map_or(0, OwnRing::number);
        self.calls_until_look
            .store(own.migration.calls_left(), Ordering::Relaxed);
        drop(attachment);
        self.interfaces.add(interface, RingSet::of(ring));
    }

    /// Has the devices bring the socket's flows by its rings, as far as they can. Under the control
    /// lock.
    pub(crate) fn bring_flows(&self) {
        if self.interfaces.has_several_rings() {
            bring_all(&self.attachment());
        }
    }

    /// The socket receives from no interface, until it [begins](Self::begin_receiving) anew. Its
    /// rings: nobody else gets them as long as they are kept.
    pub(crate) fn end_receiving(&self) -> Vec<OwnRing<S>> {
        self.interfaces.clear();
        self.calls_until_look.store(0, Ordering::Relaxed);
        std::mem::take(&mut self.attachment().own_rings.rings)
    }

    /// A call receives from the socket. Now and then it is looked whether another thread or core
    /// does than the one whose rings it has, and goes on doing so: then it gets that one's.
    #[inline]
    pub(crate) fn receives_by_call(&self) {
        if self.interfaces.has_several_rings() {
            self.count_call();
        }
    }

    #[inline(never)]
    fn count_call(&self) {
        // What threads lose of each other's counts makes the look later.
        let left = self.calls_until_look.load(Ordering::Relaxed);
        if left > 0 {
            self.calls_until_look.store(left - 1, Ordering::Relaxed);
            if left == 1 {
                self.consider_moving_rings();
            }
        }
    }

    #[cold]
    fn consider_moving_rings(&self) {
        let mut attachment = self.attachment();
        let own = &mut attachment.own_rings;
        let Some(user) = own.user else {
            return;
        };
        let present = RingUser::present(user.policy, self.number());
        let moves = own.migration.moves(user, present);
        self.calls_until_look
            .store(own.migration.calls_left(), Ordering::Relaxed);
        if !moves {
            return;
        }
        own.user = Some(present);
        for ring in &mut own.rings {
            *ring = ring.interface().own_ring(present, ring.local());
            let number = RingSet::of(ring.number());
            self.interfaces.set_rings(ring.interface(), number);
        }
        bring_all(&attachment);
        drop(attachment);
        self.counters().rx_migrations.add_contended(1);
        self.interfaces_changed();
    }
}

fn bring_all<S: Stack>(attachment: &Attachment<S>) {
    for (interface, flow) in &attachment.flows {
        if let Some(ring) = attachment.own_rings.of(interface) {
            interface.bring(flow, ring);
        }
    }
}
