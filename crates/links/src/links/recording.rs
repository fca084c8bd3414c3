//! Recording the packets of all interfaces.

use std::sync::atomic::Ordering;

use stats::CaptureRing;

use crate::interface::Interface;
use crate::links::Links;
use crate::receiver::Receiver;

impl<S: Receiver> Links<S> {
    /// Has the packets of every interface recorded, also of those that are opened later.
    pub fn record_in(&self, ring: &'static CaptureRing) {
        // First: an interface that is being opened is asked for here or sees it there.
        self.is_recorded.store(true, Ordering::SeqCst);
        let open = self.states.open();
        open.iter().for_each(|interface| interface.record_in(ring));
    }

    /// Has none recorded from here on.
    pub fn end_recording(&self) {
        self.is_recorded.store(false, Ordering::SeqCst);
        self.states.for_each_open(Interface::end_recording);
    }

    /// An interface was opened.
    pub(super) fn record_too(&self, interface: &Interface<S>) {
        if self.is_recorded.load(Ordering::SeqCst)
            && let Some(ring) = self.segment.capture()
        {
            interface.record_in(ring);
        }
    }
}
