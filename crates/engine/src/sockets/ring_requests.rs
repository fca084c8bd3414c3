//! Sockets ask for rings, and choose by what they send.

use links::rings::{RingPolicy, RingUser};
use links::settings::Settings;

use crate::sockets::host::Host;
use crate::sockets::ring_choice::RingAsk;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;

impl<S: Stack> Host<S> {
    /// A socket asks for rings. It has them at once, on interfaces that have several; a connection
    /// keeps those that it began with.
    pub fn rings_are_asked_for(&self, socket: impl Into<S>, ask: RingAsk) {
        let socket = socket.into();
        let mut attachment = socket.core().attachment();
        let choice = &mut attachment.ring_choice;
        if ask.sends {
            choice.send = Some(ask.sharers);
        }
        if ask.receives {
            choice.receive = Some(ask.sharers);
            attachment.own_rings.forget_user();
        }
        drop(attachment);
        self.links.rings_are_chosen(ask.sends, ask.receives);
        socket.follow_ring_choice(self);
    }
}

impl<S: Stack> SocketCore<S> {
    /// By what the rings are chosen that the socket sends by.
    pub(crate) fn sending_policy(&self, settings: &Settings) -> RingPolicy {
        self.attachment().ring_choice.send(settings.rings_tx)
    }

    /// Whose rings it sends by if the calling thread sends.
    pub(crate) fn present_sender(&self, settings: &Settings) -> RingUser {
        RingUser::present(self.sending_policy(settings), self.number())
    }

    /// It was accepted from a listener.
    pub(crate) fn inherit_ring_choice(&self, listener: &Self) {
        let choice = listener.attachment().ring_choice;
        self.attachment().ring_choice = choice;
    }
}
