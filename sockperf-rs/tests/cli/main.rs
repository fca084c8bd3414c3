//! Runs of the program over the loopback interface: by itself, and with the original on either side.

mod harness;
mod interop;
mod ping_pong;
mod server;
mod throughput;
mod usage;
