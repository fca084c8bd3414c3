//! Segments that open connections once more.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use links::interface::Interface;
use wire::tcp::Segment;

use crate::sockets::stack::Stack;
use crate::tcp::state::origin::Origin;

/// Segments that open connections with the addresses of such as are over.
pub(in crate::tcp) struct Reopenings<S: Stack> {
    segments: Mutex<Vec<Reopening<S>>>,
}

pub(in crate::tcp) struct Reopening<S: Stack> {
    pub(in crate::tcp) interface: &'static Interface<S>,
    pub(in crate::tcp) segment: Segment,
    pub(in crate::tcp) origin: Origin,
}

/// More than that are lost: the peer sends them again.
const SEGMENTS_MAX: usize = 256;

impl<S: Stack> Reopenings<S> {
    pub(in crate::tcp) fn new() -> Self {
        Self {
            segments: Mutex::default(),
        }
    }

    /// The caller has the old connection looked after at once, in the internal thread. Under the
    /// ring's lock.
    #[cold]
    pub(in crate::tcp) fn add(
        &self,
        interface: &'static Interface<S>,
        segment: &Segment,
        origin: Origin,
    ) {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        if segments.len() < SEGMENTS_MAX {
            segments.push(Reopening {
                interface,
                // The peer sends data of its SYN again.
                segment: Segment {
                    payload_len: 0,
                    ..*segment
                },
                origin,
            });
        }
    }

    pub(in crate::tcp) fn take(&self) -> Vec<Reopening<S>> {
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *segments)
    }
}

impl<S: Stack> fmt::Debug for Reopenings<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reopenings").finish_non_exhaustive()
    }
}
