//! `libvma.so`: preload it, and a program's UDP and TCP sockets run in user space.
//!
//! Only the C ABI is here: hooks of a few lines each, which find the socket behind a descriptor,
//! let the engine decide, and call the C library's own function for everything that is not ours.
//! See ARCHITECTURE.md.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the kernel's interfaces mix widths; what is cast is bounded by a ring, a message or a system call's result"
)]

mod adoption;
mod banner;
mod call;
mod devices;
mod environment;
mod epoll_waits;
mod extra;
mod fd_relocation;
mod filters;
mod guard;
mod guardian;
mod hooks;
mod internal_thread;
mod interposed;
mod log_sink;
#[cfg(target_arch = "x86_64")]
mod own_code;
mod process_end;
mod process_state;
mod real;
mod rules_file;
mod runtime;
mod show_packets;
mod signal_set;
mod signals;
mod sleep;
mod start;
mod started_with;
mod stats_file;
