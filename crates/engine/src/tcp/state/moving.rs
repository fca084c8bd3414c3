//! What came for a connection while it was being moved to the kernel.

use std::net::SocketAddr;

use ::tcp::Header;
use wire::tcp::Segment;

use crate::sockets::payload::Received;

/// What came for a connection while it was being moved.
#[derive(Debug)]
pub(in crate::tcp) struct Moving<S> {
    pub(in crate::tcp) local: SocketAddr,
    pub(in crate::tcp) peer: SocketAddr,
    /// Who has accepted it, and that one's generation.
    pub(in crate::tcp) listener: Option<(S, u32)>,
    pub(in crate::tcp) segments: Vec<(Header, Vec<u8>)>,
}

/// More than can come in that time; the peer sends again what is too much.
const SEGMENTS_MAX: usize = 1024;

impl<S> Moving<S> {
    pub(in crate::tcp) fn take(&mut self, segment: &Segment, data: Option<Received>) {
        if self.segments.len() < SEGMENTS_MAX {
            let data = data.map_or(Vec::new(), |data| data.as_ref().to_vec());
            self.segments.push((segment.header, data));
        }
    }

    /// What has come so far.
    pub(in crate::tcp) fn take_segments(&mut self) -> Vec<(Header, Vec<u8>)> {
        std::mem::take(&mut self.segments)
    }
}
