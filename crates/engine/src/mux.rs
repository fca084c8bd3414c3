//! Waiting for several descriptors at once: `poll(2)`, `select(2)` and `epoll(7)` on any mix of ours and the kernel's.

mod call;
pub(crate) mod epoll;
mod epoll_calls;
mod eviction;
mod members;
pub(crate) mod poll;
mod select_sets;
mod unshared;

pub(crate) use eviction::forget_alarm;

pub use call::{MuxCall, MuxOutcome};
pub use select_sets::SelectSets;
pub use unshared::epoll_may_be_shared;
