//! CUBIC (RFC 9438), in integers: octets, milliseconds, and 1/1024 octets for the Reno-friendly
//! estimate.
//!
//! Difference from the RFC: with round trips below 100 microseconds the Reno-friendly estimate
//! always grows by a segment a round (`alpha_cubic` of 1), as it does with Reno. The RFC has 9/17
//! at first, so that Reno gets as much with its deeper cuts. But those who share such paths are
//! Linux's CUBIC: its clock ticks in milliseconds, and between two ticks its growth only gets
//! faster, up to one and a half to two segments a round (measured with 20 us). There a flow that
//! keeps to 9/17 has 0.9 of its goodput at 1 % loss, and with 1 it has as much.

use core::time::Duration;

use crate::Instant;
use crate::time::Nanos;

use super::controller::Controller;
use super::hystart::HyStart;
use super::window::{Ack, MAX_CWND, Window};

/// §4.6: `beta_cubic` is 7/10.
const BETA_TENTHS: u32 = 7;
/// A clock that far from `K` has long hit every bound; so cubes fit 64 bits.
const MAX_DISTANCE_MILLIS: u64 = 1 << 20;
/// A tenth of a tick of Linux's clock.
const SHORT_RTT: Duration = Duration::from_micros(100);
/// Fractional bits of the Reno-friendly estimate.
const ESTIMATE_BITS: u32 = 10;

#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    memory: Memory,
    /// The congestion avoidance stage, if it has begun.
    epoch: Option<Box<Epoch>>,
    /// The initial slow start is HyStart's (RFC 9406 §4.3: later ones are not).
    hystart: Option<Box<HyStart>>,
    had_reduction: bool,
    last_rtt: Nanos,
    last_ack_at: Instant,
}

/// What reductions leave behind, in octets.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    /// `W_max`; zero after a timeout and before the first loss.
    w_max: u32,
    /// The window at the last reduction (`cwnd_prior`).
    cwnd_prior: u32,
}

/// A congestion avoidance stage.
#[derive(Clone, Debug)]
struct Epoch {
    start: Instant,
    /// The plateau of the curve, in octets.
    origin: u32,
    /// Milliseconds from the start to the plateau.
    k_millis: u32,
    /// `W_est`, in 1/1024 octets.
    estimate: u64,
    /// Growth that does not make up an octet yet, in octets times the window.
    credit: u64,
}

impl Controller for Cubic {
    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.last_rtt = rtt.into();
        }
        self.last_ack_at = ack.now;
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = if self.had_reduction {
                window.slow_start(acked)
            } else {
                self.hystart.get_or_insert_default().on_ack(window, ack)
            };
            if acked == 0 {
                return;
            }
        }
        let memory = self.memory;
        let epoch = self
            .epoch
            .get_or_insert_with(|| Box::new(Epoch::begin(window, memory, ack.now)));
        epoch.grow(window, memory, acked, ack.now, self.last_rtt.duration());
    }

    fn on_unused_window(&mut self, now: Instant) {
        // §5.8: t must not include time in which the window was not used.
        let unused = now - self.last_ack_at;
        self.last_ack_at = now;
        self.on_idle(unused);
    }

    fn on_reduction(&mut self, window: &Window, _now: Instant) -> u32 {
        self.epoch = None;
        self.had_reduction = true;
        let cwnd = window.cwnd;
        self.memory = Memory {
            // §4.7, fast convergence: make room for the flow whose arrival lowered our plateau:
            // W_max = cwnd * (1 + beta_cubic) / 2
            w_max: if cwnd < self.memory.w_max {
                portion(cwnd, BETA_TENTHS.saturating_add(10), 20)
            } else {
                cwnd
            },
            cwnd_prior: cwnd,
        };
        window.at_least_two_segments(portion(cwnd, BETA_TENTHS, 10))
    }

    /// §4.8: the first congestion avoidance stage after a timeout begins on the plateau.
    fn on_rto(&mut self) {
        self.epoch = None;
        self.memory.w_max = 0;
    }

    /// §4.9.2
    fn checkpoint(&mut self) -> Self {
        Self {
            epoch: self.epoch.take(),
            hystart: self.hystart.take(),
            ..*self
        }
    }

    fn on_spurious(&mut self, before: Self) {
        self.memory = before.memory;
        self.epoch = before.epoch;
        self.hystart = before.hystart;
        self.had_reduction = before.had_reduction;
    }

    fn on_idle(&mut self, idle: Duration) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = epoch.start + idle;
        }
    }
}

impl Epoch {
    fn begin(window: &Window, memory: Memory, now: Instant) -> Self {
        // §4.2: K is the time to grow from the window at the start to W_max. Where that is less
        // than the window (§4.8, §4.10: after a timeout, or after slow start ended without loss)
        // the stage begins on the plateau.
        let missing = memory.w_max.saturating_sub(window.cwnd);
        Self {
            start: now,
            origin: memory.w_max.max(window.cwnd),
            k_millis: k_millis(missing, window.mss),
            estimate: u64::from(window.cwnd) << ESTIMATE_BITS,
            credit: 0,
        }
    }

    fn grow(
        &mut self,
        window: &mut Window,
        memory: Memory,
        acked: u32,
        now: Instant,
        rtt: Duration,
    ) {
        let cwnd = window.cwnd.max(1);
        let elapsed = now - self.start;
        let is_halved =
            rtt >= SHORT_RTT && self.estimate >> ESTIMATE_BITS < memory.cwnd_prior.into();
        self.update_estimate(cwnd, acked, window.mss, is_halved);

        let estimate = u32::try_from(self.estimate >> ESTIMATE_BITS).unwrap_or(u32::MAX);
        // §4.3: in the Reno-friendly region "cwnd SHOULD be set to W_est".
        if self.window_at(elapsed, window.mss) < estimate {
            window.cwnd = cwnd.max(estimate).min(MAX_CWND);
            return;
        }
        // §4.2: the target is W_cubic(t + RTT), within cwnd and 1.5 * cwnd; §4.4, §4.5: (target -
        // cwnd) / cwnd per segment.
        let target = self
            .window_at(elapsed.saturating_add(rtt), window.mss)
            .clamp(cwnd, cwnd.saturating_add(cwnd / 2));
        let growth = u64::from(target.saturating_sub(cwnd)).saturating_mul(u64::from(acked));
        self.credit = self.credit.saturating_add(growth);
        let whole = self.credit.checked_div(u64::from(cwnd)).unwrap_or(0);
        self.credit = self
            .credit
            .saturating_sub(whole.saturating_mul(u64::from(cwnd)));
        window.cwnd = cwnd
            .saturating_add(u32::try_from(whole).unwrap_or(u32::MAX))
            .min(MAX_CWND);
    }

    /// §4.3: `W_est = W_est + alpha_cubic * (segments_acked / cwnd)`, where `alpha_cubic` is 1, or
    /// `3 * (1 - beta) / (1 + beta)`, that is 9/17, if it `is_halved`: until the window before the
    /// reduction is reached.
    fn update_estimate(&mut self, cwnd: u32, acked: u32, mss: u32, is_halved: bool) {
        let (numerator, denominator) = if is_halved { (9, 17) } else { (1, 1) };
        let segments = u64::from(acked.min(cwnd)).saturating_mul(u64::from(mss));
        let growth = (segments << ESTIMATE_BITS)
            .saturating_mul(numerator)
            .checked_div(u64::from(cwnd).saturating_mul(denominator));
        self.estimate = self.estimate.saturating_add(growth.unwrap_or(0));
    }

    /// §4.2 equation 1: `W_cubic(t) = C * (t - K)^3 + W_max` with `C` = 0.4 segments per cubic
    /// second, in octets.
    fn window_at(&self, elapsed: Duration, mss: u32) -> u32 {
        let elapsed_millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let distance = elapsed_millis
            .abs_diff(u64::from(self.k_millis))
            .min(MAX_DISTANCE_MILLIS);
        let cube = distance.saturating_mul(distance).saturating_mul(distance);
        // 0.4 * mss * cube / 10^9. What would overflow has no need of the lower digits.
        let double_mss = u64::from(mss).saturating_mul(2);
        let difference = match cube.checked_mul(double_mss) {
            Some(product) => product / 5_000_000_000,
            None => (cube / 5_000_000_000).saturating_mul(double_mss),
        };
        let difference = u32::try_from(difference).unwrap_or(u32::MAX);
        if elapsed_millis >= u64::from(self.k_millis) {
            self.origin.saturating_add(difference)
        } else {
            self.origin.saturating_sub(difference)
        }
    }
}

/// §4.2 equation 2: `K = cubic root((W_max - cwnd_epoch) / C)`, in milliseconds, of octets.
fn k_millis(missing: u32, mss: u32) -> u32 {
    let scaled = u64::from(missing).saturating_mul(2_500_000_000);
    // Cube roots of 64 bits have 22.
    u32::try_from(cube_root(scaled.checked_div(u64::from(mss)).unwrap_or(0))).unwrap_or(u32::MAX)
}

/// `value * numerator / denominator` with `denominator > 0`.
fn portion(value: u32, numerator: u32, denominator: u32) -> u32 {
    let product = u64::from(value).saturating_mul(u64::from(numerator));
    let quotient = product.checked_div(u64::from(denominator)).unwrap_or(0);
    u32::try_from(quotient).unwrap_or(u32::MAX)
}

/// The largest integer whose cube is not above `value`: Newton's iteration from above, which falls
/// until it is there.
fn cube_root(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let bits = u64::BITS.saturating_sub(value.leading_zeros());
    let mut root = 1_u64 << bits.div_ceil(3);
    loop {
        let square = root.saturating_mul(root);
        let next = root
            .saturating_mul(2)
            .saturating_add(value.checked_div(square).unwrap_or(0))
            / 3;
        if next >= root {
            return root;
        }
        root = next;
    }
}

#[cfg(test)]
mod tests;
