//! Options in the headers of segments, and the room that they take.

use wire::tcp::{Options as HeaderOptions, SackBlocks};

use super::Connection;
use crate::{Instant, Payload, mss};

impl<P: Payload> Connection<P> {
    /// The options of a segment with `len` octets of payload.
    #[inline]
    pub(super) fn header_options(&mut self, now: Instant, len: u32) -> HeaderOptions {
        let sack = if self.receiver.has_sack_blocks() && self.cold.handshake.has_sack {
            self.sack_blocks(len)
        } else {
            SackBlocks::default()
        };
        HeaderOptions {
            timestamps: self.timestamps.option(now),
            sack,
            ..HeaderOptions::default()
        }
    }

    /// RFC 2018 §4: "data sent out of order SHOULD be reported in as many SACK blocks as possible",
    /// beside `len` octets of payload.
    #[cold]
    pub(super) fn sack_blocks(&mut self, len: u32) -> SackBlocks {
        let room = u32::from(self.mss())
            .saturating_sub(len)
            .saturating_sub(SACK_OPTION_LEN);
        let fitting = (room / SACK_BLOCK_LEN) as usize;
        let most = self.most_sack_blocks() as usize;
        self.receiver
            .take_sack_blocks(fitting.min(most), self.config.dsack)
    }

    /// As many as the header has room for beside the other options.
    #[inline]
    pub(super) fn most_sack_blocks(&self) -> u32 {
        if self.timestamps.is_on() { 3 } else { 4 }
    }

    /// Octets of payload in a full segment, beside all its options. Never zero, however small the
    /// peer's MSS is.
    #[inline]
    pub(super) fn room_beside_options(&self) -> u32 {
        let mss = u32::from(self.mss());
        mss.saturating_sub(self.sack_len())
            .min(self.sender.segment_bound())
            .max(mss::MIN_PAYLOAD.into())
    }

    /// Octets that SACK blocks take from a segment's payload.
    #[inline]
    pub(super) fn sack_len(&self) -> u32 {
        let count = self.receiver.sack_block_count();
        if self.cold.handshake.has_sack && count > 0 {
            let count = count.min(self.most_sack_blocks());
            SACK_OPTION_LEN.saturating_add(count.saturating_mul(SACK_BLOCK_LEN))
        } else {
            0
        }
    }
}

/// The SACK option without blocks, padded.
const SACK_OPTION_LEN: u32 = 4;
const SACK_BLOCK_LEN: u32 = 8;
