//! Tail loss probe (RFC 8985 §7): one segment before the retransmission timer, so that the peer
//! reports what is missing at the end of a flight.

use core::time::Duration;

use crate::SeqNumber;
use crate::rtt::TIMEOUT_MIN;

/// RFC 8985 §7.2: the probe timeout before there is a measurement.
const INITIAL_PTO: Duration = Duration::from_secs(1);

/// The probe that is under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tlp {
    /// `TLP.end_seq` and `TLP.is_retrans`.
    probe: Option<Probe>,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    end: SeqNumber,
    is_retransmission: bool,
}

/// What an acknowledgement says about a probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProbeAck {
    pub(super) ack: SeqNumber,
    /// The end of a D-SACK block.
    pub(super) dsack_end: Option<SeqNumber>,
    /// It moves nothing, carries no data and no SACK.
    pub(super) is_plain_duplicate: bool,
}

impl Tlp {
    pub(super) const fn is_under_way(&self) -> bool {
        self.probe.is_some()
    }

    pub(super) const fn on_probe_sent(&mut self, end: SeqNumber, is_retransmission: bool) {
        self.probe = Some(Probe {
            end,
            is_retransmission,
        });
    }

    /// Recovery by other means takes over.
    pub(super) const fn cancel(&mut self) {
        self.probe = None;
    }

    /// §7.4.2: returns whether the probe has repaired a loss, to which congestion control must
    /// react.
    pub(super) fn on_ack(&mut self, ack: &ProbeAck) -> bool {
        let Some(Probe {
            end,
            is_retransmission,
        }) = self.probe
        else {
            return false;
        };
        if ack.ack < end {
            return false;
        }
        if !is_retransmission || ack.dsack_end == Some(end) {
            // New data, or both the original and the probe arrived.
            self.probe = None;
            return false;
        }
        if ack.ack > end {
            self.probe = None;
            return true;
        }
        if ack.is_plain_duplicate {
            // The peer had both, and knows no D-SACK.
            self.probe = None;
        }
        false
    }
}

/// §7.2: the probe timeout. A single segment's acknowledgement may be delayed, by `delayed_ack`.
pub(super) fn probe_timeout(
    srtt: Option<Duration>,
    is_single_segment: bool,
    delayed_ack: Duration,
) -> Duration {
    let Some(srtt) = srtt else {
        return INITIAL_PTO;
    };
    // So that a probe does not race the acknowledgement.
    let reserve = if is_single_segment {
        delayed_ack.max(TIMEOUT_MIN)
    } else {
        TIMEOUT_MIN
    };
    srtt.saturating_mul(2).saturating_add(reserve)
}

#[cfg(test)]
mod tests;
