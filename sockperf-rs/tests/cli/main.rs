//! Runs of the program over the loopback interface: by itself, and with the original on either side.

mod harness;
mod interop;
mod live;
mod matrix;
mod ping_pong;
mod server;
mod throughput;
mod transports;
mod under_load;
mod usage;
