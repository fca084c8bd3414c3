//! What the arguments of a call ask for: which messages, descriptors and options they name, and
//! what is to be done with each. Nothing is looked up here and nothing waits: the hook makes the
//! calls.

mod control;
mod fd_sets;
mod options;
mod receive_many;
mod send_many;
mod socket_kind;
mod times;

pub use control::{Fcntl, Ioctl};
pub use fd_sets::FdSets;
pub use options::{GetOption, Membership, SetOption, meminfo_additions};
pub use receive_many::{ReceiveMany, ReceiveTime, Received};
pub use send_many::{MESSAGES_MAX, SendMany};
pub use socket_kind::SocketKind;
pub use times::{nsec_of_msec, nsec_of_timespec, nsec_of_timeval, timeval_of_nsec};
