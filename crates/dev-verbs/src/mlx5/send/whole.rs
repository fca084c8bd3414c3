//! Packets that the card cuts into segments (TSO), and whose checksums it computes.

use rdma_core_sys::{
    MLX5_ETH_WQE_L3_CSUM, MLX5_ETH_WQE_L4_CSUM, MLX5_OPCODE_SEND, MLX5_OPCODE_TSO,
    MLX5_SEND_WQE_BB, mlx5_wqe_data_seg, mlx5_wqe_eth_seg,
};

use super::{CONTROL, SendQueue, UNIT, blocks};
use crate::tag::{TAG_AT, TAG_BYTES};
use crate::work::Place;

/// Parts of a payload at most: 64 KiB in frames of 2 KiB, and one more. The card takes 63 units.
pub(crate) const PARTS_MAX: usize = 33;
/// Headers of Ethernet with a tag, IPv6 and TCP with options.
pub(crate) const HEADERS_MAX: usize = 18 + 40 + 60;
/// Where the headers begin in the Ethernet part of a request.
const HEADERS_AT: usize = std::mem::offset_of!(mlx5_wqe_eth_seg, inline_hdr_start);
const CHECKSUMS_AT: usize = std::mem::offset_of!(mlx5_wqe_eth_seg, cs_flags);
const SEGMENT_AT: usize = std::mem::offset_of!(mlx5_wqe_eth_seg, mss);
const HEADERS_LEN_AT: usize = std::mem::offset_of!(mlx5_wqe_eth_seg, inline_hdr_sz);
/// Bytes of the longest request.
const REQUEST_MAX: usize = (CONTROL + (HEADERS_AT + HEADERS_MAX).div_ceil(UNIT) + PARTS_MAX) * UNIT;

impl SendQueue {
    /// Whether it has room for one more packet of any length.
    pub(crate) fn has_room_for_whole(&self) -> bool {
        self.has_blocks(blocks(REQUEST_MAX / UNIT))
    }

    /// Puts a packet in; there is room. Its headers are no longer than [`HEADERS_MAX`] with a tag,
    /// which they have not yet, and its parts at most [`PARTS_MAX`], each of which is a number of a
    /// request. `segment_len`: it is cut into pieces with so many octets of payload each.
    pub(crate) fn put_whole(
        &mut self,
        headers: &[u8],
        parts: &[Place],
        segment_len: Option<u16>,
        is_signaled: bool,
    ) {
        let tag = self.tag.map(|tag| tag.bytes());
        let (addresses, rest) = headers.split_at(TAG_AT.min(headers.len()));
        let tag = tag.as_ref().map_or(&[][..], |tag| &tag[..]);
        let headers_len = headers.len() + tag.len();
        debug_assert!(headers_len <= HEADERS_MAX && parts.len() <= PARTS_MAX);
        debug_assert!(tag.is_empty() || tag.len() == TAG_BYTES);

        let data_at = (CONTROL + (HEADERS_AT + headers_len).div_ceil(UNIT)) * UNIT;
        let units = data_at / UNIT + parts.len();
        let opcode = match segment_len {
            Some(_) => MLX5_OPCODE_TSO,
            None => MLX5_OPCODE_SEND,
        };
        let mut request = [0_u8; REQUEST_MAX.next_multiple_of(MLX5_SEND_WQE_BB)];
        let ethernet = &mut request[CONTROL * UNIT..];
        ethernet[CHECKSUMS_AT] = MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM;
        let segment_len = segment_len.unwrap_or(0).to_be_bytes();
        ethernet[SEGMENT_AT..SEGMENT_AT + 2].copy_from_slice(&segment_len);
        let len = (headers_len as u16).to_be_bytes();
        ethernet[HEADERS_LEN_AT..HEADERS_LEN_AT + 2].copy_from_slice(&len);
        let mut at = HEADERS_AT;
        for piece in [addresses, tag, rest] {
            ethernet[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        for (place, part) in request[data_at..].chunks_exact_mut(UNIT).zip(parts) {
            place[..4].copy_from_slice(&part.len.to_be_bytes());
            place[4..8].copy_from_slice(&self.frames.lkey.to_be_bytes());
            place[8..].copy_from_slice(&self.frames.address(part.offset).to_be_bytes());
        }
        const { assert!(size_of::<mlx5_wqe_data_seg>() == UNIT) };

        let start = self.at(self.filled);
        let behind = &request[CONTROL * UNIT..units * UNIT];
        // SAFETY: as many blocks are free as the request has; its beginning is within the first.
        unsafe {
            self.copy(
                behind.as_ptr(),
                start.wrapping_add(CONTROL * UNIT),
                behind.len(),
            )
        };
        self.write_control(opcode, units, is_signaled);
        self.count_request(units, parts.len() as u64);
    }
}
