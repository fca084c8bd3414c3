//! The AF_XDP back-end: moves the frames of chosen flows between an interface and user space, and
//! leaves everything else to the kernel.
//!
//! Read first: kernel `Documentation/networking/af_xdp.rst`. The way of a received frame: driver or
//! generic receive path, [`bpf::program`] (our flow? else `XDP_PASS`), the AF_XDP socket of the
//! frame's queue, [`XdpRx`].

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's interfaces mix widths; what is cast is bounded by a ring, a message or a system call's result"
)]

pub mod arp_round_trips;
mod attacher;
mod attachment;
pub mod bpf;
mod device;
mod ethtool;
mod exit;
mod fds;
mod first_queue;
pub mod floor;
mod flow_rules;
mod frame_space;
pub mod measured_modes;
mod metadata_source;
mod modes;
mod ptp;
mod queue;
mod queue_count;
mod rings;
mod segmenter;
pub mod shared;
mod steering;
mod table;
mod xsk;

pub use device::XdpBackend;
pub use ethtool::driver;
pub use rings::{OwnRx, OwnTx, XdpKick, XdpRx, XdpTx, XdpWatch};
pub use segmenter::XdpSegmenter;
pub use steering::XdpSteering;
pub use vma_config::XdpMode;
