//! The data path of an open interface: one receiving side over all its queues, one sending side, one kick.

mod receive;
mod send;

#[cfg(test)]
mod test_memory;

pub use receive::{XdpLook, XdpRx};
pub use send::{XdpKick, XdpTx};
