//! What processes do with sockets: fork, exec, pass them on, give up rights, die; and whose an
//! interface is.
#![allow(clippy::unwrap_used, reason = "tests")]

mod adoption;
mod children;
mod deaths;
mod ends;
mod hand_overs;
mod handlers;
mod idle;
mod internal_thread;
mod opening;
mod ownership;
mod privileges;
mod same_host;
mod seccomp;
mod shared_notes;
mod started;
mod takeover;
