//! How large the buffer should be: dynamic right-sizing by what is read in a round trip, and the
//! round-trip time as the receiver sees it (kernel `tcp_rcv_space_adjust`, `tcp_rcvbuf_grow`,
//! `tcp_rcv_rtt_measure`, `tcp_rcv_rtt_measure_ts`).

use core::time::Duration;

use crate::time::{Nanos, Span};
use crate::{Instant, SeqNumber};

/// What a receive buffer is measured by, in octets.
///
/// In four octets what they have room for: received data touches it (`connection/layout.rs`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Tuning {
    /// What the application read in the last round trip, and where that one began.
    space: u32,
    space_from: SeqNumber,
    space_since: Instant,
    /// The round-trip time as the receiver sees it; zero without a measurement.
    rtt: Span,
    /// With timestamps the echo that was measured last; without, the sequence number at which a
    /// round trip ends.
    rtt_mark: SeqNumber,
    rtt_since: Instant,
}

impl Tuning {
    /// The first sequence number that may come.
    pub(super) fn start_at(&mut self, rcv_nxt: SeqNumber) {
        self.rtt_mark = rcv_nxt;
        self.space_from = rcv_nxt;
    }

    /// The handshake is over and `window` is offered to a peer whose segments hold `mss` octets.
    pub(super) fn on_established(
        &mut self,
        now: Instant,
        rcv_nxt: SeqNumber,
        window: u32,
        mss: u32,
    ) {
        // Not more than the window that is offered at first: whoever fills that can never bring
        // more.
        self.space = window.min(mss.saturating_mul(INITIAL_SPACE_SEGMENTS));
        self.space_from = rcv_nxt;
        self.space_since = now;
        self.rtt_since = now;
    }

    /// A round-trip time from timestamps: that of a segment of full size
    /// (`tcp_rcv_rtt_measure_ts`). With `has_unread` it may be the application's slowness that was
    /// measured.
    #[inline]
    pub(crate) fn on_rtt(&mut self, echo: u32, sample: Option<Nanos>, has_unread: bool) {
        self.rtt_mark = SeqNumber(echo);
        let Some(sample) = sample else {
            return;
        };
        let sample = Span::from(sample);
        self.rtt = if self.rtt == Span::ZERO || sample < self.rtt {
            sample
        } else if has_unread {
            return;
        } else {
            let sum = self.rtt.nanos().saturating_mul(7);
            Span::from_nanos(sum.saturating_add(sample.nanos()) / 8)
        };
    }

    /// Whether an echo says more than the last one: the clock ticks in milliseconds.
    #[inline]
    pub(crate) fn is_new_echo(&self, echo: u32) -> bool {
        self.rtt_mark.0 != echo
    }

    /// Without timestamps: a window of data (`offered` octets) takes at least a round trip
    /// (`tcp_rcv_rtt_measure`).
    pub(crate) fn on_arrival_without_timestamps(
        &mut self,
        now: Instant,
        rcv_nxt: SeqNumber,
        offered: u32,
    ) {
        if rcv_nxt < self.rtt_mark {
            return;
        }
        let elapsed = Span::from_nanos(now.nanos_since(self.rtt_since));
        if self.rtt_since != Instant::ZERO && (self.rtt == Span::ZERO || elapsed < self.rtt) {
            self.rtt = elapsed;
        }
        self.rtt_mark = rcv_nxt + offered.max(1);
        self.rtt_since = now;
    }

    /// Whether a round trip has passed since the last [`Self::on_read`].
    #[inline]
    pub(crate) fn is_round_trip_over(&self, now: Instant) -> bool {
        self.rtt != Span::ZERO && now.nanos_since(self.space_since) >= self.rtt.nanos()
    }

    /// A round trip is over; the application has read up to `read_nxt` and left `queued` octets.
    /// Returns what it read in that time if the buffer is to grow with it.
    pub(super) fn on_read(
        &mut self,
        now: Instant,
        read_nxt: SeqNumber,
        queued: u32,
    ) -> Option<u32> {
        let copied = u32::try_from(read_nxt.distance_from(self.space_from)).unwrap_or(0);
        // What was not read in time says that the application is slower than the peer.
        let copied = copied.saturating_sub(queued);
        self.space_from = read_nxt;
        self.space_since = now;
        (copied > self.space).then_some(copied)
    }

    /// The buffer that is wanted if `copied` octets are read in a round trip, and data up to
    /// `beyond` octets from `RCV.NXT` waits behind gaps (`tcp_rcvbuf_grow`).
    pub(super) fn buffer_for(&mut self, copied: u32, beyond: u32) -> u32 {
        let before = u64::from(self.space.max(1));
        self.space = copied;
        let copied = u64::from(copied);
        // What was read in a round trip is what came in the one before.
        let wanted = copied.saturating_mul(2);
        // A sender in slow start doubles in the next round trip.
        let growth = wanted
            .saturating_mul(copied.saturating_sub(before))
            .checked_div(before)
            .unwrap_or(0);
        let wanted = wanted
            .saturating_add(growth.saturating_mul(2))
            .saturating_add(u64::from(beyond));
        u32::try_from(wanted.saturating_mul(2)).unwrap_or(u32::MAX)
    }

    pub(crate) fn rtt(&self) -> Duration {
        self.rtt.duration()
    }

    pub(crate) fn space(&self) -> u32 {
        self.space
    }
}

/// What a peer sends in its first round trip (`TCP_INIT_CWND`).
const INITIAL_SPACE_SEGMENTS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    const START: SeqNumber = SeqNumber(u32::MAX - 500);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + ms(millis)
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn established() -> Tuning {
        let mut tuning = Tuning::default();
        tuning.start_at(START);
        tuning.on_established(at(1), START, 5000, 100);
        tuning
    }

    #[test]
    fn the_first_round_trip_brings_ten_segments_or_the_window() {
        assert_eq!(established().space(), 1000);
        let mut tuning = Tuning::default();
        tuning.on_established(at(1), START, 5000, 1460);
        assert_eq!(tuning.space(), 5000);
    }

    #[test]
    fn round_trips_fall_at_once_and_rise_by_eighths_unless_the_application_is_slow() {
        let mut tuning = established();
        for (millis, has_unread, rtt) in [
            (Some(10), true, 10),
            (Some(18), true, 10),
            (None, false, 10),
            (Some(18), false, 11),
            (Some(5), true, 5),
        ] {
            tuning.on_rtt(7, millis.map(|millis| ms(millis).into()), has_unread);
            assert_eq!(tuning.rtt(), ms(rtt), "{millis:?}");
        }
        assert!(!tuning.is_new_echo(7));
        assert!(tuning.is_new_echo(8));
    }

    #[test]
    fn without_timestamps_a_window_of_data_takes_a_round_trip() {
        let mut tuning = established();
        tuning.on_arrival_without_timestamps(at(50), START, 1000);
        assert_eq!(tuning.rtt(), ms(49));
        // Part of a window is none.
        tuning.on_arrival_without_timestamps(at(60), START + 999, 1000);
        assert_eq!(tuning.rtt(), ms(49));
        tuning.on_arrival_without_timestamps(at(70), START + 1000, 1000);
        assert_eq!(tuning.rtt(), ms(20));
        // A longer one has a pause of the peer's in it.
        tuning.on_arrival_without_timestamps(at(170), START + 2000, 1000);
        assert_eq!(tuning.rtt(), ms(20));
    }

    #[test]
    fn what_is_read_in_a_round_trip_counts_if_it_is_more_than_before() {
        let mut tuning = established();
        assert!(!tuning.is_round_trip_over(at(1000)));
        tuning.on_rtt(7, Some(ms(10).into()), false);
        assert!(!tuning.is_round_trip_over(at(10)));
        assert!(tuning.is_round_trip_over(at(11)));
        assert_eq!(tuning.on_read(at(11), START + 1000, 0), None);
        assert!(!tuning.is_round_trip_over(at(20)));
        assert_eq!(tuning.on_read(at(21), START + 3000, 900), Some(1100));
    }

    #[test]
    fn a_buffer_holds_twice_of_what_is_read_and_more_while_that_grows() {
        let mut tuning = established();
        // Half of a buffer is for data.
        assert_eq!(tuning.buffer_for(1000, 0), 4000);
        assert_eq!(tuning.buffer_for(1000, 300), 4600);
        assert_eq!(tuning.buffer_for(2000, 0), 24_000);
        assert_eq!(tuning.space(), 2000);
        assert_eq!(tuning.buffer_for(u32::MAX, u32::MAX), u32::MAX);
    }
}
