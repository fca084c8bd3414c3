//! When the latency of a test settled: how long its start differs from the rest.
//!
//! A test is cut into slices of time. Of each, the mean logarithm of the round trips is kept, in
//! which single long ones weigh little. The start ends where leaving it out makes the mean of the
//! rest most certain (the marginal standard error rule, MSER).

use serde::Serialize;

/// The slices of a test, in constant memory: when there are too many, each takes twice the time.
#[derive(Clone, Debug)]
pub struct Slices {
    slices: Vec<Slice>,
    current: Slice,
    len_nsec: u64,
    /// When the current slice ends; 0 before the first message.
    end_nsec: u64,
}

/// Logarithms in 256ths of an octave.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    sum: u64,
    count: u64,
}

/// The start of a test that differs from its rest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settling {
    /// How long it is; 0 if there is none.
    pub settled_after_sec: f64,
    /// Its mean round trip over that of the rest (geometric means).
    pub ratio: f64,
}

const SLICES_MAX: usize = 512;
const SLICE_NSEC: u64 = 10_000_000;
/// Fewer say nothing.
const SLICES_MIN: usize = 20;
const STEPS_PER_OCTAVE: f64 = 256.0;
/// A start that differs by less is none.
const RATIO_MIN: f64 = 1.1;

impl Slices {
    /// Nothing recorded yet.
    pub fn new() -> Self {
        Self {
            slices: Vec::with_capacity(SLICES_MAX),
            current: Slice::default(),
            len_nsec: SLICE_NSEC,
            end_nsec: 0,
        }
    }

    /// Adds a round trip; they come in the order of sending. Does not allocate.
    #[inline]
    pub fn record(&mut self, tx_nsec: u64, rtt_nsec: u64) {
        if tx_nsec >= self.end_nsec {
            self.advance(tx_nsec);
        }
        self.current.sum += steps(rtt_nsec);
        self.current.count += 1;
    }

    #[cold]
    fn advance(&mut self, tx_nsec: u64) {
        if self.end_nsec == 0 {
            self.end_nsec = tx_nsec.saturating_add(self.len_nsec);
        }
        while tx_nsec >= self.end_nsec && self.end_nsec < u64::MAX {
            self.slices.push(std::mem::take(&mut self.current));
            if self.slices.len() == SLICES_MAX {
                self.merge_pairs();
            }
            self.end_nsec = self.end_nsec.saturating_add(self.len_nsec);
        }
    }

    /// The number of slices is even.
    fn merge_pairs(&mut self) {
        let merged = |pair: &[Slice]| Slice {
            sum: pair.iter().map(|slice| slice.sum).sum(),
            count: pair.iter().map(|slice| slice.count).sum(),
        };
        for index in 0..SLICES_MAX / 2 {
            let pair = self.slices.get(2 * index..2 * index + 2).map(merged);
            if let (Some(pair), Some(place)) = (pair, self.slices.get_mut(index)) {
                *place = pair;
            }
        }
        self.slices.truncate(SLICES_MAX / 2);
        self.len_nsec *= 2;
    }

    /// The start that differs from the rest; `None` if the test is too short to tell.
    pub fn settling(&self) -> Option<Settling> {
        // The last slice is not over.
        let means: Vec<(usize, f64)> = self
            .slices
            .iter()
            .enumerate()
            .filter(|(_, slice)| slice.count > 0)
            .map(|(index, slice)| (index, slice.sum as f64 / slice.count as f64))
            .collect();
        if means.len() < SLICES_MIN {
            return None;
        }
        let values: Vec<f64> = means.iter().map(|&(_, value)| value).collect();
        let cut = most_certain_cut(&values);
        let (start, rest) = values.split_at_checked(cut)?;
        let ratio = match start {
            [] => 1.0,
            _ => ((mean(start) - mean(rest)) / STEPS_PER_OCTAVE).exp2(),
        };
        if ratio.max(1.0 / ratio) < RATIO_MIN {
            return Some(Settling {
                settled_after_sec: 0.0,
                ratio: 1.0,
            });
        }
        let (index, _) = means.get(cut)?;
        let after_nsec = *index as u64 * self.len_nsec;
        Some(Settling {
            settled_after_sec: after_nsec as f64 / 1e9,
            ratio,
        })
    }
}

impl Default for Slices {
    fn default() -> Self {
        Self::new()
    }
}

impl Settling {
    /// A sentence for the user if more than `left_out_sec` should have been left out of the
    /// results.
    pub fn warning(&self, left_out_sec: f64) -> Option<String> {
        let (percent, how) = if self.ratio >= 1.0 {
            ((self.ratio - 1.0) * 100.0, "slower")
        } else {
            ((1.0 / self.ratio - 1.0) * 100.0, "faster")
        };
        (self.settled_after_sec > left_out_sec).then(|| {
            format!(
                "WARNING: the first {:.2} s of the test were {percent:.0} % {how} than the rest; \
                 --warmup-time leaves them out",
                self.settled_after_sec
            )
        })
    }
}

/// The logarithm of a time: exact at powers of two, by a straight line between them.
#[inline]
fn steps(nsec: u64) -> u64 {
    let nsec = nsec.max(1);
    let octave = u64::from(63 - nsec.leading_zeros());
    // The 8 bits behind the highest one.
    let fraction = (nsec << (63 - octave) << 1) >> 56;
    octave * 256 + fraction
}

/// How many values to leave out at the start, at most half of them.
fn most_certain_cut(values: &[f64]) -> usize {
    let mut best = (f64::INFINITY, 0);
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (cut, value) in values.iter().enumerate().rev() {
        count += 1.0;
        sum += value;
        squares += value * value;
        if cut <= values.len() / 2 {
            let error = (squares - sum * sum / count).max(0.0) / (count * count);
            // Equal ones: leave out less.
            if error <= best.0 {
                best = (error, cut);
            }
        }
    }
    best.1
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSEC: u64 = 1_000_000;

    /// A message each millisecond; `rtt_nsec` says how long it takes.
    fn slices(msec: u64, rtt_nsec: impl Fn(u64) -> u64) -> Slices {
        let mut slices = Slices::new();
        for index in 0..msec {
            slices.record(5 * MSEC + index * MSEC, rtt_nsec(index));
        }
        slices
    }

    /// Between 8 and 12 us.
    fn noisy(index: u64) -> u64 {
        8000 + (index * 7919) % 4001
    }

    #[test]
    fn a_steady_test_has_no_start() {
        for msec in [300, 5000, 200_000] {
            let settling = slices(msec, noisy).settling().unwrap();
            assert_eq!(settling.settled_after_sec, 0.0, "{msec}");
            assert_eq!(settling.warning(0.4), None);
        }
    }

    #[test]
    fn a_slow_start_is_found_and_told() {
        let settling = slices(10_000, |index| {
            noisy(index) * if index < 1500 { 2 } else { 1 }
        });
        let settling = settling.settling().unwrap();
        let after = settling.settled_after_sec;
        assert!((1.4..=1.6).contains(&after), "{settling:?}");
        assert!((1.9..=2.1).contains(&settling.ratio), "{settling:?}");
        let text = settling.warning(0.4).unwrap();
        assert!(text.contains("% slower than the rest"), "{text}");
        assert_eq!(settling.warning(2.0), None);
    }

    #[test]
    fn single_long_round_trips_do_not_count() {
        let settling = slices(
            5000,
            |index| if index == 700 { 3 * MSEC } else { noisy(index) },
        );
        assert_eq!(settling.settling().unwrap().settled_after_sec, 0.0);
    }

    #[test]
    fn memory_is_constant_and_pauses_are_no_problem() {
        let mut slices = Slices::new();
        let capacity = slices.slices.capacity();
        for hour in 0..48 {
            slices.record(1 + hour * 3_600_000_000_000, 10_000);
        }
        slices.record(u64::MAX, 10_000);
        assert_eq!(slices.slices.capacity(), capacity);
        // All of it went into a few slices.
        assert_eq!(slices.settling(), None);
    }

    #[test]
    fn short_tests_tell_nothing() {
        assert_eq!(slices(100, noisy).settling(), None);
    }

    #[test]
    fn logarithms_are_right_at_powers_of_two() {
        for (nsec, expected) in [
            (0, 0),
            (1, 0),
            (2, 256),
            (3, 384),
            (4, 512),
            (1 << 40, 10_240),
        ] {
            assert_eq!(steps(nsec), expected, "{nsec}");
        }
        assert_eq!(steps(u64::MAX), 63 * 256 + 255);
    }
}
