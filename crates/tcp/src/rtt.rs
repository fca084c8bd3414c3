//! Round-trip time and retransmission timeout (RFC 6298, RFC 7323 §4 and appendix G).
//!
//! Differences from RFC 6298, all of them Linux's:
//! * the lower bound of the timeout is 200 ms, not 1 s (§2.4, a SHOULD), and can be set lower;
//! * that bound applies to the variance's term instead of the whole: `RTO = SRTT + max(4 * RTTVAR,
//!   minimum)`, which plays the part of the clock's granularity `G` in §2.3. A steady path thus
//!   keeps a reserve for one delayed acknowledgement;
//! * the upper bound is 120 s (§2.5 permits 60 s and more).

mod windowed_min;

use core::time::Duration;

use crate::Instant;
use crate::time::Nanos;

pub use windowed_min::WindowedMin;

/// RFC 6298 §2.1: the timeout before there is a measurement.
pub const INITIAL_RTO: Duration = Duration::from_secs(1);
/// RFC 6298 §5.7: the timeout to begin with after a handshake that was retransmitted.
pub const RTO_AFTER_LOST_SYN: Duration = Duration::from_secs(3);
/// `TCP_RTO_MIN`
pub const DEFAULT_MIN_RTO: Duration = Duration::from_millis(200);
/// `TCP_RTO_MAX`
pub const DEFAULT_MAX_RTO: Duration = Duration::from_secs(120);
/// `TCP_TIMEOUT_MIN`, two ticks of Linux's clock: the shortest time that is worth waiting for.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(2);

/// The shortest lower bound that can be set: what timers resolve.
const LEAST_MIN_RTO: Duration = Duration::from_millis(1);
/// RFC 8985 §6.2 step 1 wants a minimum over a window, against route changes; Linux's is five
/// minutes.
const MIN_RTT_WINDOW_MILLIS: u32 = 300_000;

/// Estimates the round-trip time and the retransmission timeout of one connection.
#[derive(Clone, Debug)]
pub struct RttEstimator {
    smoothed: Option<Smoothed>,
    min_rtt: WindowedMin<MIN_RTT_WINDOW_MILLIS>,
    min_rto_micros: u32,
    max_rto_micros: u32,
    /// A SYN was lost and there is no measurement yet.
    has_lost_syn: bool,
    /// Timeouts since the last measurement; each doubles the timeout.
    backoff: u8,
}

#[derive(Clone, Copy, Debug)]
struct Smoothed {
    srtt: Nanos,
    rttvar: Nanos,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new(DEFAULT_MIN_RTO, DEFAULT_MAX_RTO)
    }
}

impl RttEstimator {
    /// `min_rto` is raised to 1 ms, `max_rto` to `min_rto`.
    #[must_use]
    pub fn new(min_rto: Duration, max_rto: Duration) -> Self {
        let min_rto_micros = micros(min_rto.max(LEAST_MIN_RTO));
        Self {
            smoothed: None,
            min_rtt: WindowedMin::default(),
            min_rto_micros,
            max_rto_micros: micros(max_rto).max(min_rto_micros),
            has_lost_syn: false,
            backoff: 0,
        }
    }

    /// Takes a measurement, which must not come from a retransmitted segment unless a timestamp
    /// tells the transmissions apart (RFC 6298 §3, Karn). `flight_size` is what was outstanding
    /// before the acknowledgement, in octets.
    pub fn on_sample(&mut self, now: Instant, sample: Duration, flight_size: u32, mss: u32) {
        self.min_rtt.update(now, sample);
        self.backoff = 0;
        let sample = Nanos::from(sample);
        self.smoothed = Some(match self.smoothed {
            // RFC 6298 §2.2
            None => Smoothed {
                srtt: sample,
                rttvar: Nanos::new(sample.get() / 2),
            },
            Some(old) => old.updated(sample, expected_samples(flight_size, mss)),
        });
    }

    /// Takes a round-trip time that is good for the minimum only, since delayed or selective
    /// acknowledgements distort it.
    pub fn on_min_rtt_sample(&mut self, now: Instant, sample: Duration) {
        self.min_rtt.update(now, sample);
    }

    /// RFC 6298 §5.5: "The host MUST set RTO <- RTO * 2".
    pub fn on_timeout(&mut self) {
        if self.rto_nanos() < self.max_rto_nanos() {
            self.backoff = self.backoff.saturating_add(1);
        }
    }

    /// Ends the backoff without a measurement: the timeout was spurious, or new data was
    /// acknowledged.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// RFC 6298 §5.7: begin at 3 s when a SYN had to be retransmitted and gave no measurement.
    pub fn on_handshake_retransmitted(&mut self) {
        self.has_lost_syn = true;
        self.backoff = 0;
    }

    /// Changes the lower bound on a live connection (`TCP_RTO_MIN_US`).
    pub fn set_min_rto(&mut self, min_rto: Duration) {
        self.min_rto_micros = micros(min_rto.max(LEAST_MIN_RTO)).min(self.max_rto_micros);
    }

    /// The retransmission timeout with its backoff.
    #[must_use]
    pub fn rto(&self) -> Duration {
        self.rto_nanos().duration()
    }

    #[inline]
    pub(crate) fn rto_nanos(&self) -> Nanos {
        // Past 2^24 times the least timeout every maximum is reached.
        let base = self.base_rto_nanos().get();
        Nanos::new(base.saturating_mul(1 << self.backoff.min(24))).min(self.max_rto_nanos())
    }

    /// The retransmission timeout without backoff.
    #[must_use]
    pub fn base_rto(&self) -> Duration {
        self.base_rto_nanos().duration()
    }

    #[inline]
    fn base_rto_nanos(&self) -> Nanos {
        let Some(Smoothed { srtt, rttvar }) = self.smoothed else {
            let initial = if self.has_lost_syn {
                RTO_AFTER_LOST_SYN
            } else {
                INITIAL_RTO
            };
            return Nanos::from(initial).max(self.min_rto_nanos());
        };
        let least = self.min_rto_nanos().get();
        let variance = rttvar.get().saturating_mul(4).max(least);
        Nanos::new(srtt.get().saturating_add(variance)).min(self.max_rto_nanos())
    }

    #[inline]
    fn min_rto_nanos(&self) -> Nanos {
        Nanos::new(u64::from(self.min_rto_micros).saturating_mul(1000))
    }

    #[inline]
    fn max_rto_nanos(&self) -> Nanos {
        Nanos::new(u64::from(self.max_rto_micros).saturating_mul(1000))
    }

    /// The lower bound.
    #[must_use]
    pub fn min_rto(&self) -> Duration {
        self.min_rto_nanos().duration()
    }

    /// The smoothed round-trip time, once there is a measurement.
    #[must_use]
    pub fn srtt(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| smoothed.srtt.duration())
    }

    #[must_use]
    pub fn rttvar(&self) -> Option<Duration> {
        self.smoothed.map(|smoothed| smoothed.rttvar.duration())
    }

    /// The least round-trip time of the last five minutes.
    #[must_use]
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.value()
    }

    /// Timeouts since the last measurement.
    #[must_use]
    pub fn backoff(&self) -> u8 {
        self.backoff
    }
}

impl Smoothed {
    /// RFC 6298 §2.3 with `alpha = 1/8` and `beta = 1/4`, both divided by the expected samples per
    /// round trip (RFC 7323 appendix G), lest frequent samples shorten the memory.
    fn updated(self, sample: Nanos, expected_samples: u64) -> Self {
        let (srtt, rttvar) = (self.srtt.get(), self.rttvar.get());
        let error = srtt.abs_diff(sample.get());
        Self {
            srtt: Nanos::new(moved(
                srtt,
                sample.get(),
                expected_samples.saturating_mul(8),
            )),
            rttvar: Nanos::new(moved(rttvar, error, expected_samples.saturating_mul(4))),
        }
    }
}

/// Whole microseconds, up to an hour and more.
fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}

/// `from` moved towards `to` by one `divisor`th of the way.
fn moved(from: u64, to: u64, divisor: u64) -> u64 {
    let step = |distance: u64| distance.checked_div(divisor).unwrap_or(distance);
    if to >= from {
        from.saturating_add(step(to.saturating_sub(from)))
    } else {
        from.saturating_sub(step(from.saturating_sub(to)))
    }
}

/// RFC 7323 appendix G: `ExpectedSamples = ceiling(FlightSize / (SMSS * 2))`, at least one.
fn expected_samples(flight_size: u32, mss: u32) -> u64 {
    u64::from(flight_size)
        .div_ceil(u64::from(mss.max(1)).saturating_mul(2))
        .max(1)
}

#[cfg(test)]
mod tests;
