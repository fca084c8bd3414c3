//! How long rings are.

use dev_core::FramePool;

use super::*;

/// Entries of each RX and fill ring: shared fairly, and never more than the pool can stand.
pub(super) fn rx_entries(queues: u32, pool: &FramePool) -> u32 {
    let free = u32::try_from(pool.free_count()).unwrap_or(u32::MAX);
    let budget = RX_FRAMES_MAX.min(free / 2) / queues;
    let entries = if budget == 0 { 1 } else { 1 << budget.ilog2() };
    entries.max(RX_FRAMES_PER_QUEUE_MIN)
}

/// Entries of each TX ring. As many frames as all have together may be on their way: of several
/// rings at most a quarter of the pool's.
pub(super) fn tx_entries(senders: u32, pool: &FramePool) -> u32 {
    let budget = (pool.frame_count() / 4).max(TX_ENTRIES) / senders;
    (1 << budget.ilog2()).clamp(TX_ENTRIES_MIN, TX_ENTRIES)
}
