//! Whether a higher rate brings more (section "Exiting Startup Based on Bandwidth Plateau").

use super::samples::Sample;

/// Round trips without growth that show a full pipe.
const FULL_ROUNDS: u8 = 3;

/// Whether a higher rate brings more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FullPipe {
    /// `BBR.full_bw`
    bw: u64,
    count: u8,
    /// `BBR.full_bw_now`: since it was last looked for.
    pub(super) is_now: bool,
    /// `BBR.full_bw_reached`: at any time.
    pub(super) is_reached: bool,
}

impl FullPipe {
    /// `ResetFullBW`, and what is measured from there on is to be above `bw`.
    pub(super) fn reset(&mut self, bw: u64) {
        self.bw = bw;
        self.count = 0;
        self.is_now = false;
    }

    /// `CheckFullBWReached`
    pub(super) fn check(&mut self, sample: &Sample, has_round_started: bool) {
        if self.is_now || !has_round_started || sample.is_app_limited {
            return;
        }
        // A quarter more.
        if sample.rate >= self.bw.saturating_add(self.bw / 4) {
            self.reset(sample.rate);
            return;
        }
        self.count = self.count.saturating_add(1);
        self.is_now = self.count >= FULL_ROUNDS;
        self.is_reached |= self.is_now;
    }
}
