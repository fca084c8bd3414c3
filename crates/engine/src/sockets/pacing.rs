//! Datagrams that leave at a rate (`SO_MAX_PACING_RATE`) or at a time (`SO_TXTIME`), as from the
//! kernel's queueing discipline fq: a call puts them into a queue, within the send buffer, and
//! waits only where that is full.
//!
//! Whoever sends lets those leave whose time has come, and the internal thread lets the others
//! (`pacers.rs`). A queue outlives its socket.

mod gauge;
pub(crate) mod limit;
pub(crate) mod pacers;
pub(crate) mod queue;
mod room;

/// So long before a packet's time a thread wakes, and polls the clock for the rest: its timers and
/// the scheduler are late by as much. `polls`: it may poll; if not, it does where a sleep would
/// take longer than that.
pub(crate) fn polling_nsec(polls: bool) -> u64 {
    if polls { 100_000 } else { 20_000 }
}
