//! Headers of segments that open connections (`TCP_SAVE_SYN`), from their arrival until a listener
//! has opened the connection, which may be later, in the internal thread.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use links::delivery;
use wire::tcp::Segment;

use crate::tcp::state::exempt::opens;

/// The ends of a connection: this host's, and the peer's.
type Ends = (SocketAddr, SocketAddr);

#[derive(Debug, Default)]
pub(in crate::tcp) struct SavedSyns {
    /// A listener of the process has asked for them.
    are_kept: AtomicBool,
    last: Mutex<VecDeque<(Ends, Box<[u8]>)>>,
}

/// Those before them were not opened.
const MOST: usize = 64;

impl SavedSyns {
    pub(in crate::tcp) fn begin(&self) {
        self.are_kept.store(true, Ordering::Relaxed);
    }

    /// A segment has come in a frame.
    #[inline]
    pub(in crate::tcp) fn see(&self, segment: &Segment, frame: &[u8], link_index: u32) {
        if opens(segment.header.flags) && self.are_kept.load(Ordering::Relaxed) {
            self.keep(segment, frame, link_index);
        }
    }

    #[cold]
    fn keep(&self, segment: &Segment, frame: &[u8], link_index: u32) {
        let ends = delivery::ends(segment, link_index);
        let headers = frame.get(..usize::from(segment.payload_offset));
        let mut last = self.last();
        last.retain(|(of, _)| *of != ends);
        if last.len() == MOST {
            last.pop_front();
        }
        last.push_back((ends, headers.unwrap_or_default().into()));
    }

    /// The headers of the last one between these ends, from that of the link on.
    pub(in crate::tcp) fn take(&self, ends: Ends) -> Option<Box<[u8]>> {
        let mut last = self.last();
        let at = last.iter().position(|(of, _)| *of == ends)?;
        last.remove(at).map(|(_, headers)| headers)
    }

    fn last(&self) -> MutexGuard<'_, VecDeque<(Ends, Box<[u8]>)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
