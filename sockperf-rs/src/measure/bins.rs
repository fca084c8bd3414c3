//! The fixed-width histogram of `--histogram binsize:lowerrange:upperrange`.

use crate::options::BinOptions;

/// Counts per bin.
#[derive(Clone, Debug)]
pub struct Bins {
    options: BinOptions,
    /// Nanoseconds of round-trip time per microsecond of the reported quantity.
    nsec_per_usec: u64,
    counts: Vec<u64>,
    below: u64,
    above: u64,
}

/// One line of the histogram: the bounds in microseconds, the lower inclusive, the upper exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Lower bound.
    pub from_usec: u64,
    /// Upper bound.
    pub to_usec: u64,
    /// Samples.
    pub count: u64,
    /// Whether this line stands for all that is below or above the range.
    pub is_outlier: bool,
}

impl Bins {
    /// Empty bins; the times recorded are round trips, of which half is counted unless `full_rtt`.
    pub fn new(options: BinOptions, full_rtt: bool) -> Self {
        let len = usize::try_from(options.bin_count()).unwrap_or(0);
        Self {
            options,
            nsec_per_usec: if full_rtt { 1000 } else { 2000 },
            counts: vec![0; len],
            below: 0,
            above: 0,
        }
    }

    /// Adds one sample.
    #[inline]
    pub fn record(&mut self, rtt_nsec: u64) {
        let usec = rtt_nsec / self.nsec_per_usec;
        let Some(offset_usec) = usec.checked_sub(self.options.lower_usec) else {
            self.below += 1;
            return;
        };
        let index = usize::try_from(offset_usec / self.options.bin_usec).unwrap_or(usize::MAX);
        match self.counts.get_mut(index) {
            Some(count) => *count += 1,
            None => self.above += 1,
        }
    }

    /// Adds the samples of another thread, which has the same bins.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.below += other.below;
        self.above += other.above;
    }

    /// The bins that are not empty, between the outliers, given the extreme round-trip times.
    pub fn rows(&self, min_rtt_nsec: u64, max_rtt_nsec: u64) -> Vec<Row> {
        let BinOptions {
            bin_usec,
            lower_usec,
            ..
        } = self.options;
        let mut rows = Vec::new();
        if self.below > 0 {
            rows.push(Row {
                from_usec: min_rtt_nsec / self.nsec_per_usec,
                to_usec: lower_usec,
                count: self.below,
                is_outlier: true,
            });
        }
        let starts = (0..).map(|index: u64| lower_usec + index * bin_usec);
        rows.extend(
            starts
                .zip(&self.counts)
                .filter(|&(_, &count)| count > 0)
                .map(|(from_usec, &count)| Row {
                    from_usec,
                    to_usec: if bin_usec == 1 {
                        from_usec
                    } else {
                        from_usec + bin_usec
                    },
                    count,
                    is_outlier: false,
                }),
        );
        if self.above > 0 {
            rows.push(Row {
                from_usec: self.options.rounded_upper_usec(),
                to_usec: max_rtt_nsec / self.nsec_per_usec,
                count: self.above,
                is_outlier: true,
            });
        }
        rows
    }

    /// What was asked for.
    pub fn options(&self) -> BinOptions {
        self.options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_fall_into_half_open_bins() {
        let mut bins = Bins::new(
            BinOptions {
                bin_usec: 2,
                lower_usec: 6,
                upper_usec: 11,
            },
            true,
        );
        for usec_tenths in [59, 60, 79, 80, 100, 119, 120, 430] {
            bins.record(usec_tenths * 100);
        }
        let row = |from_usec, to_usec, count, is_outlier| Row {
            from_usec,
            to_usec,
            count,
            is_outlier,
        };
        assert_eq!(
            bins.rows(5900, 43_000),
            [
                row(5, 6, 1, true),
                row(6, 8, 2, false),
                row(8, 10, 1, false),
                row(10, 12, 2, false),
                row(12, 43, 2, true),
            ]
        );
    }

    #[test]
    fn latency_is_half_of_the_round_trip() {
        let mut bins = Bins::new(
            BinOptions {
                bin_usec: 1,
                lower_usec: 0,
                upper_usec: 10,
            },
            false,
        );
        bins.record(9_999);
        assert_eq!(
            bins.rows(9_999, 9_999),
            [Row {
                from_usec: 4,
                to_usec: 4,
                count: 1,
                is_outlier: false
            }]
        );
    }
}
