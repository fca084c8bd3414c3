//! `fork(2)`: parent and child have one kernel socket behind each descriptor, and a datagram is for
//! whichever of them takes it first. The parent keeps its sockets accelerated until a descendant
//! uses one; from then on that one is the kernel's.
//!
//! The descendant cannot reach into its parent, so it asks: it writes its wish into memory that
//! both share ([`shared`](crate::sockets::shared)), and notifies the parent through its
//! [`recall_channel`](crate::process::recall_channel), on which the parent's internal thread waits.
//! Most children never do, as they execute another program.
//!
//! What waited in the parent's user space is sent again, with its own addresses, through a raw
//! socket that was opened with the interface: a new descriptor takes, for a moment, a number that
//! the program may expect. A child of `vfork(2)` is told by its process id.

mod adoption;
mod descendant;
mod owner;
mod port_checks;

pub use adoption::Inherited;
