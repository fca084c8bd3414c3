//! No congestion control (`VMA_TCP_CC_ALGO=2`): the window is as large as it can be and stays so.

use core::time::Duration;

use crate::Instant;

use super::controller::Controller;
use super::window::{Ack, Window};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uncontrolled;

impl Controller for Uncontrolled {
    fn on_ack(&mut self, _window: &mut Window, _ack: &Ack) {}

    fn on_unused_window(&mut self, _now: Instant) {}

    fn on_reduction(&mut self, window: &Window, _now: Instant) -> u32 {
        window.ssthresh
    }

    fn on_rto(&mut self) {}

    fn checkpoint(&mut self) -> Self {
        *self
    }

    fn on_spurious(&mut self, _before: Self) {}

    fn on_idle(&mut self, _idle: Duration) {}
}
