//! What happens to a process and to its descendants: fork, exec, its end, and the internal thread.

mod end;
pub(crate) mod end_request;
mod event_loop;
pub(crate) mod fork;
pub mod monitor;
mod tasks;
