//! `fork(2)`: parent and child have one kernel socket behind each descriptor, and a datagram is for whichever of them takes it
//! first. The parent keeps its sockets accelerated until a descendant uses one; from then on that one is the kernel's.
//!
//! The descendant cannot reach into its parent, so it asks: it writes its wish into memory that both share
//! ([`shared`]), and rings the parent's [`recall_line`], on which the parent's internal thread waits. Most children never do, as
//! they execute another program.

mod descendant;
mod owner;
mod recall_line;
mod shared;

pub(crate) use owner::Sharing;
pub(crate) use shared::SharedSocket;
