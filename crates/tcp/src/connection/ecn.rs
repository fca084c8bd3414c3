//! Explicit congestion notification (RFC 3168 §6.1).

use wire::tcp::{Flags, Header};

use super::Connection;
use super::segment::Incoming;
use crate::{Ecn, EcnMode, Payload};

impl<P: Payload> Connection<P> {
    /// RFC 3168 §6.1.1: the flags with which a SYN asks. A retransmitted one does not (§6.1.1.1):
    /// something on the path may drop it for that.
    pub(super) fn ecn_setup_flags(&self) -> Flags {
        if self.config.ecn == EcnMode::On && self.cold.handshake.retransmits == 0 {
            Flags::ECE | Flags::CWR
        } else {
            Flags::NONE
        }
    }

    /// A SYN that asks for ECN.
    pub(super) fn agree_to_ecn(&mut self, syn: &Header, ecn: Ecn) {
        // RFC 3168 §6.1.1: a SYN must not be ECN-capable itself; such a network cannot be trusted.
        self.ecn.is_on = self.config.ecn != EcnMode::Off
            && syn.flags.contains(Flags::ECE | Flags::CWR)
            && ecn == Ecn::NotEct;
    }

    /// The SYN-ACK to our SYN. It may answer the first one, which asked, although others that did
    /// not went after it (as Linux): the peer then takes its agreement for ours.
    pub(super) fn learn_ecn(&mut self, syn_ack: &Header) {
        self.ecn.is_on = self.config.ecn == EcnMode::On
            && syn_ack.flags.contains(Flags::ECE)
            && !syn_ack.flags.contains(Flags::CWR);
        // The window was reduced for the lost SYN.
        self.ecn.owes_cwr = self.ecn.is_on && self.cold.handshake.retransmits > 0;
    }

    /// RFC 3168 §6.1.2: the window may have been reduced "for any reason (because of a retransmit
    /// timeout, a Fast Retransmit, or in response to an ECN Notification)".
    pub(super) fn note_reduction(&mut self, was_reducing: bool) {
        self.ecn.owes_cwr |= self.cold.recovery.is_reducing() && !was_reducing;
    }

    /// The marks of a segment with data, of which something `is_new`. Returns whether the peer is
    /// to hear of them at once.
    #[inline]
    pub(super) fn on_ecn_marks(&mut self, segment: &Incoming<'_>, is_new: bool) -> bool {
        if !self.ecn.is_on {
            return false;
        }
        let mut is_urgent = false;
        // RFC 3168 §6.1.3: "When it receives a CWR packet [...] it stops setting the ECN-Echo
        // flag", which a mark on the same packet starts again.
        if segment.has(Flags::CWR) {
            self.ecn.is_echoing = false;
            // The sender waits for an answer before it grows its window.
            is_urgent = true;
        }
        match segment.ecn {
            // RFC 3168 §6.1.5: "the TCP data receiver SHOULD ignore the ECN field on arriving data
            // packets that are outside of the receiver's current window", as retransmissions and
            // forgeries are.
            _ if !is_new => {}
            Ecn::Ce => {
                self.ecn.is_seen = true;
                if !self.ecn.is_echoing {
                    self.ecn.is_echoing = true;
                    self.receiver.enter_quick_mode(&self.config);
                    is_urgent = true;
                }
            }
            Ecn::Ect0 | Ecn::Ect1 => self.ecn.is_seen = true,
            Ecn::NotEct => {}
        }
        is_urgent
    }

    /// ECE for an outgoing acknowledgement.
    #[inline]
    pub(super) fn ecn_echo(&self) -> Flags {
        if self.ecn.is_echoing {
            Flags::ECE
        } else {
            Flags::NONE
        }
    }
}
