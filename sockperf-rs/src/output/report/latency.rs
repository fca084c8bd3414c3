//! The result of a test that measures latency.

use super::sec;
use crate::client::replies::Replies;
use crate::client::run::Run;
use crate::measure::recorder::WARM_UP_PACKETS;
use crate::measure::round_trips::RoundTrips;
use crate::measure::statistics::{Sorted, Statistics};
use crate::options::{ClientOptions, TestLength};
use crate::terminal::Style;

/// The result of a test that measures latency, from the totals to the percentiles.
pub fn latency(
    run: &Run,
    statistics: &Statistics,
    options: &ClientOptions,
    style: Style,
) -> String {
    let mut text = statistic_lines(run, statistics, options, style);
    let summary = summary_line(statistics, options);
    // The summary follows the line with the losses.
    let position = text
        .find("sockperf: Total ")
        .or_else(|| text.find(HIGHLIGHTED_TOTAL));
    text.insert_str(position.unwrap_or(text.len()), &summary);
    if let (false, Some(corrected)) = (style.strict, &run.valid.corrected) {
        text += &corrected_line(corrected, options.results.full_rtt);
    }
    text
}

/// What clients would see that do not wait for a slow server.
fn corrected_line(corrected: &RoundTrips, full_rtt: bool) -> String {
    let sorted = Sorted::new(corrected);
    let usec = |percent| sorted.percentile_nsec(percent).unwrap_or(0.0) / usec_divisor(full_rtt);
    format!(
        "sockperf: Corrected for coordinated omission: p50 = {:.3}; p99 = {:.3}; p99.9 = {:.3}; \
         p99.99 = {:.3}; max = {:.3}\n",
        usec(50.0),
        usec(99.0),
        usec(99.9),
        usec(99.99),
        corrected.max_nsec as f64 / usec_divisor(full_rtt)
    )
}

/// Nanoseconds of round trip in a microsecond of what is reported.
pub fn usec_divisor(full_rtt: bool) -> f64 {
    if full_rtt { 1000.0 } else { 2000.0 }
}

/// The same without the summary, as it also stands in the full log.
pub fn statistic_lines(
    run: &Run,
    statistics: &Statistics,
    options: &ClientOptions,
    style: Style,
) -> String {
    let mut text = total_line(run, options);
    text += "sockperf: ========= Printing statistics for Server No: 0\n";
    text += &format!(
        "sockperf: [Valid Duration] RunTime={:.3} sec; SentMessages={}; ReceivedMessages={}\n",
        sec(run.valid.run_time_nsec()),
        run.valid.sent,
        statistics.observations
    );
    text += &format!(
        "sockperf: {}\n",
        style.highlight(spread(statistics, options.results.full_rtt))
    );
    text += &loss_lines(run, style);
    let total = style.highlight(format!("Total {} observations", statistics.observations));
    text += &format!(
        "sockperf: {total}; each percentile contains {:.2} observations\n",
        statistics.observations as f64 / 100.0
    );
    text += &format!(
        "sockperf: ---> <MAX> observation = {:8.3}\n",
        statistics.max_usec
    );
    for (percent, usec) in &statistics.percentiles_usec.0 {
        text += &format!("sockperf: ---> percentile {percent:6.3} = {usec:8.3}\n");
    }
    text + &format!(
        "sockperf: ---> <MIN> observation = {:8.3}\n",
        statistics.min_usec
    )
}

const HIGHLIGHTED_TOTAL: &str = "sockperf: \x1b[2;35mTotal ";

fn total_line(run: &Run, options: &ClientOptions) -> String {
    let warm_up = match options.length {
        // What the original prints, though nothing is cut out of a playback.
        TestLength::TimeSec(_) | TestLength::TimeLine => {
            format!("Warm up time={} msec", options.warm_up_msec)
        }
        TestLength::Packets(_) => format!("Warm up packets={WARM_UP_PACKETS}"),
    };
    let skipped = match run.sending.skipped {
        0 => String::new(),
        skipped => format!("; SkippedMessages={skipped}"),
    };
    format!(
        "sockperf: [Total Run] RunTime={:.3} sec; {warm_up}; SentMessages={}; ReceivedMessages={}{skipped}\n",
        sec(run.sending.run_time_nsec),
        run.sending.sent,
        run.replies.received
    )
}

fn spread(statistics: &Statistics, full_rtt: bool) -> String {
    let [low, high] = statistics.confidence_interval_usec;
    format!(
        "====> avg-{}={:.3} (std-dev={:.3}, mean-ad={:.3}, median-ad={:.3}, siqr={:.3}, cv={:.3}, \
         std-error={:.3}, {:.1}% ci=[{low:.3}, {high:.3}])",
        if full_rtt { "rtt" } else { "latency" },
        statistics.mean_usec,
        statistics.std_dev_usec,
        statistics.mean_ad_usec,
        statistics.median_ad_usec,
        statistics.siqr_usec,
        statistics.coefficient_of_variation,
        statistics.std_error_usec,
        statistics.confidence_level_percent,
    )
}

fn loss_lines(run: &Run, style: Style) -> String {
    let (dropped, out_of_order) = (run.valid.dropped, run.valid.out_of_order);
    let duplicated = run.replies.duplicated;
    let losses = format!(
        "# dropped messages = {dropped}; # duplicated messages = {duplicated}; \
         # out-of-order messages = {out_of_order}"
    );
    let mut text = if (dropped, duplicated, out_of_order) == (0, 0, 0) {
        format!("sockperf: {losses}\n")
    } else {
        format!("sockperf: {}\n", style.alarm(losses))
    };
    let Replies {
        late,
        unexpected,
        malformed,
        ..
    } = run.replies;
    if (late, unexpected, malformed) != (0, 0, 0) && !style.strict {
        let others = format!(
            "# late replies = {late}; # unexpected replies = {unexpected}; \
             # malformed datagrams = {malformed}"
        );
        text += &format!("sockperf: {}\n", style.alarm(others));
    }
    text
}

fn summary_line(statistics: &Statistics, options: &ClientOptions) -> String {
    let what = if options.results.full_rtt {
        "Round trip"
    } else {
        "Latency"
    };
    let of_burst = match options.burst {
        1 => String::new(),
        burst => format!(" of burst of {burst} messages"),
    };
    format!(
        "sockperf: Summary: {what}{of_burst} is {:.3} usec\n",
        statistics.mean_usec
    )
}
