//! What the arguments of a call ask for: which messages, descriptors and options they name, and
//! what is to be done with each. Nothing is looked up here and nothing waits: the hook makes the
//! calls.

mod receive_many;
mod send_many;

pub use receive_many::{ReceiveMany, ReceiveTime, Received};
pub use send_many::{MESSAGES_MAX, SendMany};
