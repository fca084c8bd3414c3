//! `fork(2)`: parent and child have one kernel socket behind each descriptor, and a datagram is for whichever of them takes it
//! first. The parent keeps its sockets accelerated until a descendant uses one; from then on that one is the kernel's.
//!
//! The descendant cannot reach into its parent, so it asks: it writes its wish into memory that both share
//! ([`crate::sockets::shared`]), and notifies the parent through its [`recall_channel`], on which the parent's internal thread waits. Most children never do, as
//! they execute another program.

mod descendant;
mod owner;
mod port_checks;
mod recall_channel;
mod throttle;

pub(crate) use owner::Sharing;
pub(crate) use recall_channel::SHUT_DOWN;
pub(crate) use throttle::Throttle;
