//! The times that recovery waits for, and what may have come with them.

use crate::Instant;

/// What [`on_timeout`](super::Recovery::on_timeout) did. Poll for segments after any but
/// [`Self::Nothing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No deadline has come.
    Nothing,
    /// Segments sent before one that has arrived are overdue: recovery goes on, or begins.
    Overdue,
    /// A tail loss probe is to be sent: a new segment, for which there is
    /// [`room`](super::Recovery::room), or the last one again.
    Probe,
    /// The retransmission timer has expired; the first segment is to be sent again.
    Retransmission,
}

/// When to do what.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deadlines {
    pub(super) retransmission: Option<Instant>,
    pub(super) probe: Option<Instant>,
    /// RACK's: a segment is due to be deemed lost, and no report of it is under way any more.
    pub(super) reordering: Option<Instant>,
}
