//! NewReno: RFC 5681 §3.1 with appropriate byte counting (RFC 3465).

use core::time::Duration;

use crate::Instant;

use super::controller::Controller;
use super::window::{Ack, MAX_CWND, Window};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NewReno {
    /// Octets acknowledged since the window last grew (`bytes_acked` of RFC 3465 §2.1).
    acked: u32,
}

impl Controller for NewReno {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
        }
        // RFC 3465 §2.1: one segment for each window's worth of octets acknowledged.
        self.acked = self.acked.saturating_add(acked);
        if self.acked >= window.cwnd {
            self.acked = self.acked.saturating_sub(window.cwnd).min(window.cwnd);
            window.cwnd = window.cwnd.saturating_add(window.mss).min(MAX_CWND);
        }
    }

    fn on_unused_window(&mut self, _now: Instant) {}

    /// RFC 5681 §3.1 equation 4.
    fn on_reduction(&mut self, window: &Window, _now: Instant) -> u32 {
        self.acked = 0;
        window.at_least_two_segments(window.cwnd / 2)
    }

    fn on_rto(&mut self) {
        self.acked = 0;
    }

    fn checkpoint(&mut self) -> Self {
        *self
    }

    fn on_spurious(&mut self, _before: Self) {}

    fn on_idle(&mut self, _idle: Duration) {}
}
