//! When a connection begins to pace what it sends, and how fast.

use super::Connection;
use crate::Payload;
use crate::pacing::UNLIMITED;

impl<P: Payload> Connection<P> {
    /// After a change of the rate, the segment size or the algorithm.
    pub(super) fn start_pacing(&mut self) {
        let mss = u32::from(self.mss());
        let rate = self.cold.options.max_pacing_rate;
        if self.cold.recovery.congestion.pacing().is_some() {
            self.outgoing().pacer.get_or_insert_default();
            self.follow_pacing();
        } else if rate == UNLIMITED {
            if let Some(outgoing) = &mut self.cold.outgoing {
                outgoing.pacer = None;
            }
        } else {
            let pacer = self.outgoing().pacer.get_or_insert_default();
            pacer.set_rate(rate, mss);
        }
    }

    /// Congestion control may want another rate.
    #[inline]
    pub(super) fn follow_pacing(&mut self) {
        if let Some(pacing) = self.cold.recovery.congestion.pacing()
            && let Some(outgoing) = &mut self.cold.outgoing
            && let Some(pacer) = &mut outgoing.pacer
        {
            let most = self.cold.options.max_pacing_rate;
            pacer.set_rate_and_burst(pacing.octets_per_second.min(most), pacing.quantum);
        }
    }
}
