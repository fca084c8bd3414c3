//! The states of a connection.

/// `BBR.state`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The rate doubles each round trip until it does not help any more.
    Startup,
    /// The queue that this has made runs empty. Since that round trip.
    Drain { since: u32 },
    /// The cycle of a connection that knows its path.
    ProbeBw(Cycle),
    /// Little is in flight, so that the queue is empty and the round trip short.
    ProbeRtt,
}

/// Where in the cycle of ProbeBW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cycle {
    /// Slower than the path: what was too much leaves it.
    Down,
    /// As fast as the path.
    Cruise,
    /// The same for a round trip, without the short-term bounds.
    Refill,
    /// Faster than the path.
    Up,
}
