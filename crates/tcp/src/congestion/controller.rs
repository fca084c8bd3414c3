//! What an algorithm is to the rest.

use core::time::Duration;

use super::window::{Ack, Window};
use crate::Instant;

/// What differs between the algorithms.
pub(super) trait Controller: Sized {
    /// Grows the window. Called outside of fast recovery, while the sender uses its window.
    fn on_ack(&mut self, window: &mut Window, ack: &Ack);

    /// Acknowledged while the sender did not use its window: time passes that must not count (RFC
    /// 9438 §5.8).
    fn on_unused_window(&mut self, now: Instant);

    /// Loss, a congestion mark or the first timeout of an episode: the new `ssthresh`.
    fn on_reduction(&mut self, window: &Window, now: Instant) -> u32;

    /// The retransmission timer has expired.
    fn on_rto(&mut self);

    /// The window is about to be reduced: gives the state that [`Self::on_spurious`] needs to take
    /// that back. What the algorithm does not need after the reduction is moved there instead of
    /// copied.
    fn checkpoint(&mut self) -> Self;

    /// The last reduction was not needed; its effects on the algorithm's state, which was `before`
    /// then, are taken back.
    fn on_spurious(&mut self, before: Self);

    /// Nothing was in flight for `idle`.
    fn on_idle(&mut self, idle: Duration);
}
