//! What the arguments of a call ask for: which messages, descriptors and options they name, and
//! what is to be done with each. Nothing is looked up here and nothing waits: the hook makes the
//! calls.

mod fd_sets;
mod receive_many;
mod send_many;
mod times;

pub use fd_sets::FdSets;
pub use receive_many::{ReceiveMany, ReceiveTime, Received};
pub use send_many::{MESSAGES_MAX, SendMany};
pub use times::{
    nsec_of_msec, nsec_of_timespec, nsec_of_timeval, timespec_of_nsec, timeval_of_nsec,
};
