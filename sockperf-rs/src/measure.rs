//! From what became of each message to statistics, in constant memory; and what else belongs to a
//! measurement: the machine, its disturbances, what libvma did.

pub mod activity;
pub mod bins;
pub mod environment;
pub mod event;
pub mod host;
pub mod intervals;
pub mod offload;
pub mod recorder;
pub mod round_trips;
pub mod sample_log;
pub mod settling;
pub mod statistics;
