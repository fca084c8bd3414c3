//! Where a packet lies in a frame, and how much of one has room there.

/// Space that the kernel keeps free in front of a received packet (`XDP_PACKET_HEADROOM`).
pub(crate) const HEADROOM_BYTES: u32 = 256;
const ETHERNET_HEADER_BYTES: u32 = 14;

/// The largest IP packet that a frame with room for so many bytes holds.
pub(crate) fn mtu_max(frame_capacity: u32) -> u32 {
    frame_capacity - ETHERNET_HEADER_BYTES
}
