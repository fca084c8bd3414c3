//! Naps of threads that would sleep, where wake-ups are moderated ([`Moderation`]).

use crate::interface::Interface;
use crate::interface::set::InterfaceSet;
use crate::moderation::Moderation;
use crate::receiver::Receiver;

/// The naps of a call.
#[derive(Debug, Default)]
pub struct Naps {
    in_vain: bool,
}

impl Naps {
    /// For how long the call, which is about to sleep, naps instead. After a nap in vain it sleeps:
    /// the stream has paused.
    pub fn next<S: Receiver>(
        &mut self,
        moderation: Moderation,
        interfaces: &InterfaceSet<S>,
    ) -> Option<u64> {
        if std::mem::take(&mut self.in_vain) {
            interfaces.iter().for_each(Interface::stream_has_paused);
            return None;
        }
        let naps = interfaces.iter();
        let nap = naps
            .filter_map(|interface| interface.stream_nap_nsec(moderation))
            .min();
        self.in_vain = nap.is_some();
        nap
    }
}
