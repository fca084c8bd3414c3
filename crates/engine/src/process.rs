//! What happens to a process and to its descendants: fork, exec, its end, and the internal thread.

pub(crate) mod end_request;
pub(crate) mod fork;
pub mod monitor;
