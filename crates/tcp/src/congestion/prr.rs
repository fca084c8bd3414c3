//! Proportional rate reduction (RFC 9937): spreads the reduction of the window over the round trip
//! of recovery.

use super::window::Window;

/// The variables of RFC 9937 §6, in octets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    recover_flight_size: u32,
    delivered: u32,
    out: u32,
}

impl Prr {
    pub(super) fn new(recover_flight_size: u32) -> Self {
        Self {
            recover_flight_size: recover_flight_size.max(1),
            delivered: 0,
            out: 0,
        }
    }

    pub(super) fn on_sent(&mut self, octets: u32) {
        self.out = self.out.saturating_add(octets);
    }

    /// RFC 9937 §6: sets the window to `in_flight`, as it is then, and `SndCnt`. `delivered` and
    /// `is_safe` are `DeliveredData` and `SafeACK`.
    pub(super) fn on_delivered(
        &mut self,
        delivered: u32,
        in_flight: u32,
        is_safe: bool,
        window: &mut Window,
    ) {
        // "if (DeliveredData is 0) Return"
        if delivered == 0 {
            return;
        }
        self.delivered = self.delivered.saturating_add(delivered);
        let mut send_count = if in_flight > window.ssthresh {
            // "SndCnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out"
            let portion = u64::from(self.delivered).saturating_mul(u64::from(window.ssthresh));
            let target = portion.div_ceil(u64::from(self.recover_flight_size));
            u32::try_from(target)
                .unwrap_or(u32::MAX)
                .saturating_sub(self.out)
        } else {
            // "If SafeACK: SndCnt += MSS" (slow start reduction bound), else conservative reduction
            // bound.
            let bound = self.delivered.saturating_sub(self.out).max(delivered);
            let bound = bound.saturating_add(if is_safe { window.mss } else { 0 });
            bound.min(window.ssthresh.saturating_sub(in_flight))
        };
        // "Force a fast retransmit upon entering recovery": a whole segment, of which octets fall
        // short.
        if self.out == 0 {
            send_count = send_count.max(window.mss);
        }
        window.cwnd = in_flight.saturating_add(send_count);
    }
}
