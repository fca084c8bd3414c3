//! What a listener that is the kernel's again still has.

use std::sync::Arc;

use links::delivery;
use links::interface::Interface;

use ::tcp::Instant;
use dev_core::{Admission, Flow};
use wire::tcp::Segment;

use crate::sockets::payload::Received;
use crate::sockets::socket::SocketCore;
use crate::sockets::stack::Stack;
use crate::tcp::globals::Globals;
use crate::tcp::listen::Listening;
use crate::tcp::state::unmatched::UnmatchedSegment;
use crate::tcp::stream::Outcome;

/// A listener that the kernel has, with what it does not have yet. Under the socket's lock.
pub(in crate::tcp) struct Returning<S: Stack> {
    pub(in crate::tcp) listening: Box<Listening<S>>,
    /// `None`: nobody waits.
    pub(in crate::tcp) admission: Option<Arc<dyn Admission>>,
    /// Those of connections that are still here.
    pub(in crate::tcp) flows: Vec<(&'static Interface<S>, Flow)>,
    /// Segments of others, which came before the flows were gone.
    pub(in crate::tcp) later: Vec<UnmatchedSegment>,
    /// No descriptor of this process is left.
    pub(in crate::tcp) is_orphan: bool,
}

/// More than can come in that time; the peer sends again what is too much.
const LATER_MAX: usize = 4096;

impl<S: Stack> Returning<S> {
    /// A segment that came past the kernel. Under the ring's lock.
    pub(in crate::tcp) fn take(
        &mut self,
        (core, globals): (&SocketCore<S>, &Globals<S>),
        now: Instant,
        segment: &Segment,
        link_index: u32,
        data: Option<Received>,
    ) -> Outcome {
        let key = delivery::ends(segment, link_index);
        if self.listening.children.contains_key(&key) {
            let listening = &mut self.listening;
            let mut outcome = listening.take_for_child(core, globals, now, segment, key, data);
            if self.listening.next().is_some() {
                outcome.wake_up = Some(now);
            }
            return outcome;
        }
        if self.later.len() < LATER_MAX {
            self.later
                .push(UnmatchedSegment::new(segment, link_index, data));
        }
        Outcome {
            wake_up: Some(now),
            ..Outcome::default()
        }
    }
}
