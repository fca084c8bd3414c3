//! TCP sockets: connections of the `tcp` crate, on rings.
//!
//! The kernel socket behind one is connected without a packet, under repair (`TCP_REPAIR`): so the
//! kernel chooses the addresses, keeps them from others and shows them, and takes the connection
//! back when something is asked for that only it can do.

mod accept;
mod application;
mod arrivals;
mod call;
mod clock;
mod close;
mod connect;
mod deliver;
mod destroyed;
mod device;
mod dissolve;
mod egress;
mod from_kernel;
mod globals;
mod icmp;
mod in_kernel;
mod info;
mod listen;
mod network_header;
mod news;
mod offload;
mod options;
mod orphan;
mod reaping;
mod receive;
mod reopen;
mod run_timers;
mod same_host;
mod send;
mod send_file;
mod shown_segments;
mod socket;
mod splice;
mod state;
mod stream;
mod sysctl;
mod to_kernel;
mod wishes;

pub use accept::Accepting;
pub use application::Amount;
pub use call::{Direction, StreamCall, StreamOutcome};
pub use connect::ConnectOutcome;
pub(crate) use globals::{Globals, can_repair};
pub(crate) use listen::begin::backlog_in_kernel;
pub(crate) use listen::shared::look_after_shared_listeners;
pub use offload::may_accelerate;
pub(crate) use options::takes_over_connection;
pub(crate) use reaping::{end_one, end_some};
pub(crate) use run_timers::run_timers;
pub use send_file::{FileRange, FileToSend};
pub use socket::{TcpSocket, TcpStack};
pub use splice::{Pipe, PipeEnd};
