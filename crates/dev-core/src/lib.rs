//! What every back-end has in common: frames and their pool, the ring traits, the flow table, the
//! locks and a prefetch.
//!
//! A back-end (`dev-xdp`, the null device) implements [`Backend`]; the engine is generic over it,
//! so that a call into a ring on the data path is a direct call.

#![warn(missing_docs)]

pub mod admission;
mod arrival;
pub mod backend;
pub mod flow;
mod groups;
mod helper_thread;
mod link;
pub mod lock;
pub mod memory;
pub mod null;
pub mod pool;
mod prefetch;
mod sharded_lock;
mod sync;

pub use admission::{Admission, Agreed, Clocks, ReceivingHost, WindowShifts};
pub use arrival::{ClockSample, MARK, MARK_WITH_DEVICE_TIME, NOTED_BYTES, Noted, NotedTimes};
pub use backend::{
    BIND, Backend, Kick, KickOutcome, Merging, NoSegmenter, OpenError, Port, ReceivingSide,
    RingsMax, RxRing, RxWatch, Segmented, Segmenter, SetOption, Steering, TxRing,
};
pub use flow::{Flow, FlowTable, Protocol, at_any_address};
pub use groups::{GroupMember, GroupTable, SourceFilter};
pub use helper_thread::{spawn, threads_begin_with};
pub use link::{Carrier, LinkSpec, Upper};
pub use lock::{Lock, LockGuard, Rank, ThreadMode};
pub use memory::{Allocate, FrameMemory, HUGE_PAGE_BYTES};
pub use pool::{Frame, FramePool, IN_FRONT};
pub use prefetch::{prefetch, prefetch_early};
pub use sharded_lock::{AllGuard, ShardGuard, ShardedLock};
pub use vma_config::MemoryKind;

/// What this thread has stored before is seen by all threads of the process afterwards, and what
/// they have stored by this one: the expensive half of an asymmetric barrier, whose cheap half is a
/// `compiler_fence`.
pub fn order_all_threads() {
    // The call has to be registered for.
    let _ = sync::membarrier::available();
    sync::membarrier::all_threads();
}
