//! UDP sockets.

mod ancillary;
mod datagram;
mod destination;
mod dummy_send;
mod flows;
mod groups;
mod network_header;
mod os_counts;
mod os_polls;
mod port_sharing;
mod queue;
mod receive;
mod requeue;
mod send;
mod send_options;
mod socket;
mod truesize;

pub(crate) use groups::follow_port;
pub(crate) use port_sharing::look_after_shared_ports;
pub use receive::{RecvCall, RecvOutcome};
pub use send::{RoomOutcome, SendCall, SendOutcome};
pub use socket::{UdpSocket, UdpStack};
