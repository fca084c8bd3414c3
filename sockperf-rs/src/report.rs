//! The text of a run, in the format of the original.
//!
//! Programs read this text, so its oddities are kept: the missing line break after `send on:`, the
//! columns, the wording. Lines that the original does not have appear only when their counts are
//! not 0.

use std::fmt::Write;

use crate::address::Flow;
use crate::clock::Clock;
use crate::open::BufferSizes;
use crate::options::{ClientOptions, Mode, Multiplexer, Options, Target, TestLength};
use crate::output::Style;
use crate::recorder::{RoundTrips, WARM_UP_NSEC, WARM_UP_PACKETS};
use crate::replies::Replies;
use crate::run::{End, Estimate, Run, Sending};
use crate::server::Totals;
use crate::statistics::{Statistics, percentile_nsec};

/// The line about `--buffer-size`.
pub fn buffer_sizes(sizes: BufferSizes) -> String {
    format!(
        "sockperf: Socket buffers sizes of fd {}: RX: {} Byte, TX: {} Byte\n",
        sizes.fd, sizes.receive_len, sizes.send_len
    )
}

/// The first line of every run.
pub fn version(style: Style) -> String {
    let version = style.highlight(format!("== version #{}-rs == ", env!("CARGO_PKG_VERSION")));
    format!("sockperf: {version}\n")
}

/// What `--debug` shows.
pub fn debug(options: &Options, clock: &Clock) -> String {
    let mut text = String::from("+INFO:\n");
    let json = serde_json::to_string_pretty(options).unwrap_or_default();
    for line in json.lines() {
        text += &format!("+INFO: {line}\n");
    }
    text + &format!(
        "+INFO: taking time ({}), using the given settings, consumes {:.3} nsec\n",
        clock.name(),
        clock.cost_nsec()
    )
}

/// A test in a few words.
pub fn title(options: &ClientOptions) -> String {
    let target = match &options.common.target {
        Target::One { host, port, stream } => format!(
            "{} port {port} {}",
            host.as_deref().unwrap_or("127.0.0.1"),
            if *stream { "TCP" } else { "UDP" }
        ),
        Target::File(path) => path.clone(),
    };
    format!(
        "{} to {target}, {} bytes",
        options.mode.name(),
        options.message_len
    )
}

/// The lines before a client's addresses.
pub fn sends_on(mode: Mode, multiplexer: Multiplexer) -> String {
    match mode {
        Mode::Throughput => "sockperf[CLIENT] send on:\n".to_owned(),
        _ => format!(
            "sockperf[CLIENT] send on:sockperf: {}\n\n",
            waiting(multiplexer)
        ),
    }
}

/// The lines with the addresses of a client or a thread of a server.
pub fn flows<'a>(flows: impl Iterator<Item = &'a Flow>) -> String {
    flows
        .enumerate()
        .map(|(index, flow)| flow.line(index))
        .collect()
}

/// The line before a server's addresses.
pub const LISTENS_ON: &str = "sockperf: [SERVER] listen on:\n";

/// The line that a thread of a server prints when it is ready.
pub fn server_ready(thread_id: i32, multiplexer: Multiplexer) -> String {
    format!("sockperf: [tid {thread_id}] {}\n", waiting(multiplexer))
}

fn waiting(multiplexer: Multiplexer) -> String {
    let call = match multiplexer {
        Multiplexer::Recvfrom => "recvfrom",
        Multiplexer::Select => "select",
        Multiplexer::Poll => "poll",
        Multiplexer::Epoll => "epoll",
    };
    format!("using {call}() to block on socket(s)")
}

/// The line before the warm-up messages.
pub const WARM_UP_STAGE: &str = "sockperf: Warmup stage (sending a few dummy messages)...\n";

/// The last lines of a server.
pub fn server(totals: &Totals, shows_gaps: bool, style: Style) -> String {
    let mut text = String::from("sockperf: Test end (interrupted by user)\n");
    text += &match totals.handled {
        0 => "sockperf: No messages were received on the server.\n".to_owned(),
        handled => format!("sockperf: Total {handled} messages received and handled\n"),
    };
    if shows_gaps {
        for session in &totals.sessions {
            text += &format!("sockperf: {}\n", session.gap_line());
        }
    }
    if !style.strict {
        text += &server_details(totals);
    }
    text + "sockperf: cleanupAfterLoop() exit\n"
}

fn server_details(totals: &Totals) -> String {
    let mut text = String::new();
    for session in totals.sessions.iter().take(SESSIONS_SHOWN) {
        text += &format!("sockperf: {}\n", session.line());
    }
    let others = totals.sessions.len().saturating_sub(SESSIONS_SHOWN);
    let reason = totals.last_reply_error.as_deref();
    let failed = format!(
        "replies that could not be sent (last: {})",
        reason.unwrap_or("a stop was requested")
    );
    for (count, what) in [
        (others as u64, "clients more"),
        (totals.malformed_datagrams, "malformed datagrams"),
        (totals.malformed_streams, "malformed streams"),
        (totals.failed_replies, failed.as_str()),
        (
            totals.untracked_messages,
            "messages of clients not checked for loss",
        ),
    ] {
        if count > 0 {
            text += &format!("sockperf: # {what} = {count}\n");
        }
    }
    text
}

/// How a client's test ended.
pub fn test_end(end: End) -> String {
    let reason = match end {
        End::TimeLine => return "sockperf: Test ended\n".to_owned(),
        End::Timer => "Test end (interrupted by timer)",
        End::Packets => "Test end (reached packet number)",
        End::PacketTimeout => {
            "Test ends uncompleted, number of packets requested taking too long (interrupted by timer)"
        }
        End::Stopped => "Test end (interrupted by user)",
    };
    format!("sockperf: {reason}\nsockperf: Test ended\n")
}

/// The line about the expected duration of a test with a number of packets.
pub fn estimate(estimate: Estimate) -> String {
    format!(
        "sockperf: RunTime Estimate={:.3} sec, Time out in {:.3} sec\n",
        sec(estimate.run_time_nsec),
        sec(estimate.time_out_nsec)
    )
}

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
    let usec =
        |percent| percentile_nsec(corrected, percent).unwrap_or(0.0) / usec_divisor(full_rtt);
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

/// The line that the original prints when the machine cannot keep up with `--mps`.
pub const RATE_TOO_HIGH: &str = "sockperf: Info: The requested message-per-second rate is too high. \
     Try tuning --mps or --burst arguments\n";

/// The result of a throughput test.
pub fn throughput(run: &Sending, options: &ClientOptions, style: Style) -> String {
    let run_time_sec = sec(run.run_time_nsec);
    let rate = message_rate(run);
    let skipped = match run.skipped {
        0 => String::new(),
        skipped => format!(" ({skipped} messages skipped)"),
    };
    let mut text = format!(
        "sockperf: Total of {} messages sent{skipped} in {run_time_sec:.3} sec\n\n",
        run.sent
    );
    if options.message_len != BEST_LEN || options.messages_per_second.is_some() {
        text += &format!("sockperf: {}\n", style.highlight(throughput_note(options)));
    }
    text += &format!("sockperf: Summary: Message Rate is {rate:.0} [msg/sec]");
    if options.message_len > BEST_LEN {
        let fragments = options.message_len.div_ceil(BEST_LEN);
        let packet_rate = rate.round() * fragments as f64;
        write!(
            text,
            ", Packet Rate is about {packet_rate:.0} [pkt/sec] ({fragments} ip frags / msg)"
        )
        .ok();
    }
    text + &bandwidth_line(bandwidth_mbytes_per_sec(run), options)
}

fn bandwidth_line(mega_bytes: f64, options: &ClientOptions) -> String {
    let results = &options.results;
    let (value, unit) = if results.giga_size {
        (mega_bytes / 1000.0, 'G')
    } else {
        (mega_bytes, 'M')
    };
    let decimals = if results.precise && !results.giga_size {
        9
    } else {
        3
    };
    format!(
        "\nsockperf: Summary: BandWidth is {value:.decimals$} {unit}Bps ({:.decimals$} {unit}bps)\n",
        value * 8.0
    )
}

/// Messages per second.
pub fn message_rate(run: &Sending) -> f64 {
    run.sent as f64 / sec(run.run_time_nsec).max(1e-9)
}

/// 2^20 bytes of messages per second.
pub fn bandwidth_mbytes_per_sec(run: &Sending) -> f64 {
    run.sent_bytes as f64 / sec(run.run_time_nsec).max(1e-9) / f64::from(1u32 << 20)
}

/// Seconds of nanoseconds.
pub fn sec(nsec: u64) -> f64 {
    nsec as f64 / 1e9
}

/// Clients of a server that have a line.
const SESSIONS_SHOWN: usize = 16;
const HIGHLIGHTED_TOTAL: &str = "sockperf: \x1b[2;35mTotal ";
/// The largest UDP payload that fits into one Ethernet frame.
const BEST_LEN: usize = 1472;

fn total_line(run: &Run, options: &ClientOptions) -> String {
    let warm_up = match options.length {
        // What the original prints, though nothing is cut out of a playback.
        TestLength::TimeSec(_) | TestLength::TimeLine => {
            format!("Warm up time={} msec", WARM_UP_NSEC / 1_000_000)
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

fn throughput_note(options: &ClientOptions) -> String {
    let client = options;
    let size = match client.range_len {
        0 => format!("msg-size={}", client.message_len),
        range_len => format!("average msg-size={} (+/-{range_len})", client.message_len),
    };
    match client.messages_per_second {
        None => format!(
            "NOTE: test was performed, using {size}. For getting maximum throughput consider using \
             --msg-size={BEST_LEN}"
        ),
        Some(rate) => {
            let sizes = if client.message_len == BEST_LEN {
                format!("--msg-size={BEST_LEN}")
            } else {
                format!("--msg-size={BEST_LEN} or --msg-size=4096")
            };
            format!(
                "NOTE: test was performed, using {size}, mps={rate}. For getting maximum throughput \
                 use --mps=max (and consider {sizes})"
            )
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
