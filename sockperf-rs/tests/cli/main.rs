//! Runs of the program over the loopback interface: by itself, and with the original on either
//! side.

mod harness;
mod hostile;
mod interop;
mod live;
mod matrix;
mod ping_pong;
mod ping_pong_faults;
mod server;
mod threads;
mod throughput;
#[cfg(feature = "tls")]
mod tls;
mod transports;
mod under_load;
mod usage;
