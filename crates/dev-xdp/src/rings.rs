//! The data path of an open interface: receiving sides over its queues, sending sides, and the kick
//! of each.

mod receive;
mod send;
pub(crate) mod sides;
pub(crate) mod turns;

#[cfg(test)]
mod test_memory;

pub use receive::OwnRx;
pub use send::{OwnTx, XdpKick};
pub use sides::{XdpRx, XdpTx, XdpWatch};
