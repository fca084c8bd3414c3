//! What becomes of a message.

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was sent.
    pub tx_nsec: u64,
    /// How much later than planned it was sent.
    pub lag_nsec: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How one message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reply came after this many nanoseconds.
    Received(u64),
    /// The reply came before the reply to an earlier message; it is not a sample.
    OutOfOrder,
    /// No reply came in time.
    Dropped,
}
