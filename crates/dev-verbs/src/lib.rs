//! The verbs back-end: moves the frames of chosen flows between an RDMA NIC and user space by a
//! queue pair of raw packets. The NIC's flow rules say which; everything else is the kernel's.
//!
//! Read first: rdma-core's manual pages `ibv_post_send(3)`, `ibv_poll_cq(3)`, `ibv_create_flow(3)`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the interface mixes widths; what is cast is bounded by a queue or a frame"
)]
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one promise covers a pointer and what it leads to"
)]

mod arrived;
mod clock;
mod completions;
mod device;
mod events;
mod find;
mod mlx5;
mod one_user;
mod opened;
mod pair;
mod provider;
mod receive;
mod receive_queue;
mod rule;
mod segmenter;
mod send;
mod steering;
mod tag;
mod work;

pub use completions::VerbsWatch;
pub use device::{QueueSizes, VerbsBackend};
pub use receive::VerbsRx;
pub use segmenter::VerbsSegmenter;
pub use send::{VerbsKick, VerbsTx};
pub use steering::VerbsSteering;
