//! Whether the sender uses its window. One that it does not use says nothing about the network and
//! must not grow (RFC 7661 §1; RFC 9438 §5.8, of application-limited flows).

use crate::SeqNumber;

use super::window::Window;

/// What was in flight at most during the last round trip (Linux: `tcp_cwnd_validate`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// The window was full at some time in the round trip that ends when `until` is acknowledged.
    full: bool,
    most_in_flight: u32,
    until: Option<SeqNumber>,
}

impl Usage {
    pub(super) fn on_sent(
        &mut self,
        in_flight: u32,
        full: bool,
        snd_una: SeqNumber,
        snd_nxt: SeqNumber,
    ) {
        let new_round = self.until.is_none_or(|until| snd_una >= until);
        if new_round || full || (!self.full && in_flight > self.most_in_flight) {
            self.full = full;
            self.most_in_flight = in_flight;
            self.until = Some(snd_nxt);
        }
    }

    /// The window was full at some time in the last round trip.
    pub(super) const fn is_full(&self) -> bool {
        self.full
    }

    /// In slow start using more than half is enough: what is sent in response to acknowledgements
    /// doubles.
    pub(super) fn is_limited(&self, window: &Window) -> bool {
        self.full || (window.in_slow_start() && window.cwnd < self.most_in_flight.saturating_mul(2))
    }

    /// How much of the window was used in the last round trip.
    pub(super) const fn used(&self, window: &Window) -> u32 {
        if self.full {
            window.cwnd
        } else {
            self.most_in_flight
        }
    }
}
