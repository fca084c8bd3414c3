//! Segments of connections that are not known here.

use std::net::SocketAddr;

use links::delivery;
use wire::tcp::{Header, Segment};

use crate::sockets::payload::Received;

/// A segment of a connection that is not known here. It may be one of the kernel's, which says so.
#[derive(Debug)]
pub(in crate::tcp) struct UnmatchedSegment {
    pub(in crate::tcp) local: SocketAddr,
    pub(in crate::tcp) peer: SocketAddr,
    pub(in crate::tcp) header: Header,
    pub(in crate::tcp) data: Vec<u8>,
}

impl UnmatchedSegment {
    /// A copy, for the frame belongs to the ring.
    pub(in crate::tcp) fn new(segment: &Segment, link_index: u32, data: Option<Received>) -> Self {
        let (local, peer) = delivery::ends(segment, link_index);
        Self {
            local,
            peer,
            header: segment.header,
            data: data.map_or(Vec::new(), |data| data.as_ref().to_vec()),
        }
    }
}
