//! Threads and time: CPUs, the clock, the request to end.

pub mod affinity;
pub mod clock;
pub mod preload;
pub mod raw_option;
pub mod stop;
pub mod ticks;
