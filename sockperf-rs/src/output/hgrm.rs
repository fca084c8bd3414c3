//! The percentile distribution as HdrHistogram prints it, for its plotters.

use crate::measure::round_trips::RoundTrips;
use crate::output::report::usec_divisor;

/// Steps for each halving of what is left above.
const TICKS: u32 = 5;

/// The text of a `.hgrm` file; values in microseconds, round trips or half of them.
pub fn text(times: &RoundTrips, full_rtt: bool) -> String {
    let divisor = usec_divisor(full_rtt);
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    for step in times.histogram.iter_quantiles(TICKS) {
        let value = step.value_iterated_to() as f64 / divisor;
        let quantile = step.quantile_iterated_to();
        let count = times.histogram.count_between(0, step.value_iterated_to());
        text += &format!("{value:12.3} {quantile:14.12} {count:10}");
        if quantile < 1.0 {
            text += &format!(" {:14.2}", 1.0 / (1.0 - quantile));
        }
        text.push('\n');
    }
    let count = times.count.max(1) as f64;
    text + &format!(
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {:12}]\n",
        times.sum_nsec as f64 / count / divisor,
        times.histogram.stdev() / divisor,
        times.max_nsec as f64 / divisor,
        times.count,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distribution_ends_with_all_samples() {
        let mut times = RoundTrips::new().unwrap();
        (1..=1000).for_each(|usec| times.record(usec * 2000));
        let text = text(&times, false);
        let rows: Vec<Vec<&str>> = text
            .lines()
            .skip(2)
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[0][..3], ["1.000", "0.000000000000", "1"]);
        let last = rows.last().unwrap();
        assert_eq!(last[1..3], ["1.000000000000", "1000"]);
        let half = rows.iter().find(|row| row[1] == "0.500000000000").unwrap();
        assert_eq!(half[2], "500");
        assert!(text.contains("#[Mean    =      500.500,"), "{text}");
        assert!(text.contains("Total count    =         1000]"), "{text}");
    }
}
