//! Queues by the calls of a device's provider: one for each list of requests.

mod receive;
mod send;

pub(crate) use receive::ReceiveQueue;
pub(crate) use send::SendQueue;
