//! UDP sockets over IPv4.

mod attach;
mod destination;
mod direct;
mod hand_back;
mod os_polls;
mod queue;
mod receive;
mod send;
mod socket;

pub(crate) use direct::DirectReceive;
pub(crate) use queue::Received;
pub use receive::{RecvCall, RecvOutcome};
pub use send::SendOutcome;
pub use socket::UdpSocket;
