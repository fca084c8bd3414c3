//! The engine between the C ABI and the devices: which sockets are ours, what happens in a call on one of them, and when the
//! kernel does it instead.
//!
//! A call never blocks in here. Where the application's call would, the engine answers with a [`sleep::Sleep`], and the
//! hook sleeps in a system call of the application's own, with no lock held and nothing to clean up: the thread may be
//! cancelled there.
//!
//! Locks, in this order: control → ring.rx → socket → ring.tx → pool. Sets of epoll and wait queues are leaves.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's interfaces mix widths; what is cast is bounded by a ring, a message or a system call's result"
)]

mod control;
mod cpu_sharing;
mod doorbell;
mod end_request;
mod engine;
mod exception;
mod fd_table;
mod fork;
mod frames;
mod interface;
mod interfaces;
pub mod interrupt;
mod kernel_sockets;
mod message;
pub mod monitor;
mod moved_descriptor;
mod mux;
mod netconf_network;
mod network;
mod next_hops;
mod notice;
mod offload;
mod option_names;
mod options;
mod port_sharing;
mod reason;
mod select_sets;
mod slab;
mod sleep;
mod sync;
mod sys;
mod takeover;
mod udp;
pub mod user_memory;
mod wait;

pub use control::LogControls;
pub use doorbell::Follows;
pub use engine::{Engine, Object, Settings};
pub use exception::{ExceptionAction, Request};
pub use message::Message;
pub use moved_descriptor::OldNumberUsers;
pub use mux::epoll::EpollSet;
pub use mux::poll::PolledSockets;
pub use mux::{MuxCall, MuxOutcome, epoll_may_be_shared};
pub use netconf_network::NetconfNetwork;
pub use network::{FixedNetwork, InterfaceFacts, Network, NetworkChange, NextHop, Resolution};
pub use notice::warn_in_a_box;
pub use port_sharing::PortUser;
pub use reason::Reason;
pub use select_sets::SelectSets;
pub use sleep::Sleep;
pub use sys::{Errno, tick_nsec};
pub use udp::{RecvCall, RecvOutcome, SendOutcome, UdpSocket};
