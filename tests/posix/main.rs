//! Calls, on the kernel and with the library: the same values, errors, data and signals. Most cases
//! are those of a C program, and run in several ways (`testkit::compare_cases`).
#![allow(clippy::unwrap_used, reason = "tests")]

mod addresses;
mod by_number;
mod descriptors;
mod early;
mod epoll;
mod epoll_copies;
mod exec;
mod faults;
mod fork;
mod fortify;
mod hook_kinds;
mod inline;
mod io_uring;
mod kernels;
mod namespaces;
mod numbers;
mod options;
mod own_numbers;
mod process;
mod races;
mod random_waits;
mod receive;
mod send;
mod sharing;
mod signals;
mod threads;
mod transfers;
mod wait;
