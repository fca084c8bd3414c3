//! Waiting for several descriptors at once: `poll(2)`, `select(2)` and `epoll(7)` on any mix of
//! ours and the kernel's.

mod call;
mod copies;
mod counters;
pub(crate) mod epoll;
mod epoll_copies;
mod epoll_wait;
mod eviction;
mod hand_overs;
mod inline_list;
mod lazy_ctl;
mod members;
pub(crate) mod poll;
mod polling_time;
mod ready_list;
pub(crate) mod registration;
mod select_sets;
pub(crate) mod silent;

use crate::sockets::stack::Stack;
pub(crate) use copies::other_epolls;
pub(crate) use counters::MuxCounters;
pub(crate) use epoll_copies::{epoll_copied, epoll_created, epoll_passed, is_passed, is_unshared};
pub(crate) use eviction::forget_alarm;
pub use registration::Registration;
pub(crate) use select_sets::ASKED;

pub use call::{MuxCall, MuxOutcome};
pub use epoll_copies::epoll_may_be_shared;
pub use eviction::has_called_back as epoll_has_called_back;
pub use select_sets::SelectSets;

/// To be called before a set is watched. `false`: threads that wait for it in the kernel could not
/// be called back.
pub(crate) fn prepare_eviction() -> bool {
    eviction::prepare()
}

/// Sockets that are watched by epoll sets of this module.
pub trait MuxStack: Stack<Place = Registration<Self>> {}

impl<S: Stack<Place = Registration<S>>> MuxStack for S {}
