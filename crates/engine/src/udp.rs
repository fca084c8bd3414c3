//! UDP sockets, as far as they carry IPv4.

mod ancillary;
mod attach;
mod charge;
mod datagram;
mod destination;
mod groups;
mod hand_back;
mod os_counts;
mod os_polls;
mod port_sharing;
mod queue;
mod receive;
mod rehearsal;
mod send;
mod send_options;
mod socket;

use datagram::Received;
pub(crate) use groups::follow_port;
pub(crate) use port_sharing::look_after_shared_ports;
pub use receive::{RecvCall, RecvOutcome};
pub use send::SendOutcome;
pub use socket::{UdpSocket, UdpStack};
