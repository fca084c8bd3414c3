//! The data path of an open interface: receiving sides over its queues, sending sides, and the kick
//! of each.

mod receive;
mod send;

#[cfg(test)]
mod test_memory;

pub use receive::{XdpRx, XdpWatch};
pub use send::{XdpKick, XdpTx};
