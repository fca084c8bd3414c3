//! Streams of octets between two processes of a host, in memory that they share.
//!
//! A connection of the kernel's over loopback stays as it is. Beside it each [`Direction`] has a
//! ring: its writer alone opens it, when the reader has taken all that went through the kernel, and
//! closes it at any octet. What is unread then goes through the kernel, and so does everything
//! later. [`Outgoing`] and [`Incoming`] are the two ends.
//!
//! Rings lie in an [`Arena`], one for each pair of processes, which goes from one to the other
//! through a [`Channel`]. How two processes learn that they have a connection with each other is
//! said in [`Meeting`]. Who has news for another process says so in its [`Doorbell`].
//!
//! Whatever is read of shared memory is copied, and checked before it is used: the other process
//! may write anything at any time, and spoils its own streams with that.

#![allow(
    clippy::cast_possible_truncation,
    reason = "what is cast is bounded by the size of a ring or the number of slots"
)]

mod arena;
mod channel;
mod direction;
mod doorbell;
mod meeting;
mod sync;

pub use arena::{Arena, SLOTS, Side, Slot};
pub use channel::{Channel, Message, Received};
pub use direction::{Direction, Hostile, Incoming, Outgoing, Place, RING_BYTES};
pub use doorbell::Doorbell;
pub use meeting::{Key, Meeting, Met};
