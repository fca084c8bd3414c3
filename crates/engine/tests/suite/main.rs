//! The engine over a device and a network that the tests control, beside real sockets of the
//! kernel's.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "descriptors, ports and lengths are small"
)]

#[path = "../support/mod.rs"]
mod support;

mod attach;
mod descriptors;
mod destinations;
mod device_times;
mod epoll;
mod epoll_copies;
mod epoll_sets;
mod explained;
mod faults;
mod floods;
mod groups;
mod interfaces;
mod layers;
mod lifetimes;
mod merged;
mod moderation;
mod options;
mod poll;
mod port_groups;
mod receive;
mod receiving_rings;
mod rings;
mod rules;
mod send;
mod slow_readers;
mod statistics;
mod waiting;
