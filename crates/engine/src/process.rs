//! What a process and its descendants, or its own threads, say to each other: parts that the engine
//! has, and a loop for its thread.

pub(crate) mod credentials;
pub(crate) mod door;
pub(crate) mod end_request;
pub(crate) mod event_loop;
pub(crate) mod recall_channel;
pub(crate) mod sharing;
pub(crate) mod thread_place;
pub(crate) mod thread_request;
pub(crate) mod throttle;
