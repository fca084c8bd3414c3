//! `--histogram binsize:lowerrange:upperrange`

use serde::Serialize;

/// What was asked for, in whole microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BinOptions {
    /// Width of a bin.
    pub bin_usec: u64,
    /// Shorter times are outliers.
    pub lower_usec: u64,
    /// Longer times are outliers.
    pub upper_usec: u64,
}

/// 8 MB of counters.
const MAX_BINS: u64 = 1_000_000;

impl BinOptions {
    /// Reads `binsize:lowerrange:upperrange`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let format =
            || format!("Invalid argument: {text} Format should be binsize:lowerrange:upperrange");
        let numbers: Option<Vec<u64>> = text
            .split(':')
            .map(|part| part.parse::<u32>().ok().map(u64::from))
            .collect();
        let Some([bin_usec, lower_usec, upper_usec]) = numbers.as_deref() else {
            return Err(format());
        };
        let options = Self {
            bin_usec: *bin_usec,
            lower_usec: *lower_usec,
            upper_usec: *upper_usec,
        };
        if options.bin_usec == 0 || options.lower_usec >= options.upper_usec {
            return Err(format!(
                "{} with binsize > 0 and lowerrange < upperrange",
                format()
            ));
        }
        if options.bin_count() > MAX_BINS {
            return Err(format!(
                "Invalid argument: {text} has more than {MAX_BINS} bins"
            ));
        }
        Ok(options)
    }

    /// How many bins it takes.
    pub fn bin_count(self) -> u64 {
        (self.upper_usec - self.lower_usec).div_ceil(self.bin_usec)
    }

    /// The upper bound, rounded up to a whole number of bins.
    pub fn rounded_upper_usec(self) -> u64 {
        self.lower_usec + self.bin_count() * self.bin_usec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_parse() {
        let options = BinOptions {
            bin_usec: 2,
            lower_usec: 6,
            upper_usec: 30,
        };
        assert_eq!(BinOptions::parse("2:6:30"), Ok(options));
        for bad in [
            "", "2", "2:6", "2:6:30:1", "a:6:30", "0:6:30", "2:30:6", "2:6:6", "-1:2:3",
        ] {
            assert!(BinOptions::parse(bad).is_err(), "{bad:?}");
        }
        assert!(
            BinOptions::parse("1:0:1000001")
                .unwrap_err()
                .contains("more than")
        );
    }
}
