//! The text of a run, in the format of the original.
//!
//! Programs read this text, so its oddities are kept: the missing line break after `send on:`, the
//! columns, the wording. Lines that the original does not have appear only when their counts are
//! not 0.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::options::{Mode, PingPongOptions, TestLength, ThroughputOptions};
use crate::output::Style;
use crate::ping_pong::{self, End};
use crate::recorder::{WARM_UP_NSEC, WARM_UP_PACKETS};
use crate::server::Totals;
use crate::socket::BufferSizes;
use crate::statistics::Statistics;
use crate::throughput;

/// The line about `--buffer-size`.
pub fn buffer_sizes(sizes: BufferSizes) -> String {
    format!(
        "sockperf: Socket buffers sizes of fd {}: RX: {} Byte, TX: {} Byte\n",
        sizes.fd, sizes.receive_len, sizes.send_len
    )
}

/// The first lines of every run.
pub fn preamble(mode: Mode, address: SocketAddr, style: Style) -> String {
    let version = style.highlight(format!("== version #{}-rs == ", env!("CARGO_PKG_VERSION")));
    let role = match mode {
        Mode::Server => "sockperf: [SERVER] listen on:\n".to_owned(),
        Mode::PingPong => {
            format!("sockperf[CLIENT] send on:sockperf: {RECEIVE_CALL}\n\n")
        }
        Mode::Throughput => "sockperf[CLIENT] send on:\n".to_owned(),
    };
    let ip = address.ip().to_string();
    format!(
        "sockperf: {version}\n{role}[ 0] IP = {ip:<15} PORT = {:>5} # UDP\n",
        address.port()
    )
}

/// The line that a server prints when it is ready.
pub fn server_ready(thread_id: i32) -> String {
    format!("sockperf: [tid {thread_id}] {RECEIVE_CALL}\n")
}

/// The line before the warm-up messages.
pub const WARM_UP_STAGE: &str = "sockperf: Warmup stage (sending a few dummy messages)...\n";

/// The last lines of a server.
pub fn server(totals: &Totals) -> String {
    let mut text = String::from("sockperf: Test end (interrupted by user)\n");
    text += &match totals.handled {
        0 => "sockperf: No messages were received on the server.\n".to_owned(),
        handled => format!("sockperf: Total {handled} messages received and handled\n"),
    };
    if totals.malformed_datagrams > 0 {
        text += &format!(
            "sockperf: # malformed datagrams = {}\n",
            totals.malformed_datagrams
        );
    }
    if totals.failed_replies > 0 {
        let reason = totals
            .last_reply_error
            .as_deref()
            .unwrap_or("unknown error");
        text += &format!(
            "sockperf: # replies that could not be sent = {} (last: {reason})\n",
            totals.failed_replies
        );
    }
    for session in &totals.sessions {
        text += &format!("sockperf: {}\n", session.line());
    }
    if totals.untracked_messages > 0 {
        text += &format!(
            "sockperf: # messages of clients not checked for gaps = {}\n",
            totals.untracked_messages
        );
    }
    text + "sockperf: cleanupAfterLoop() exit\n"
}

/// How a client's test ended.
pub fn test_end(end: End) -> String {
    let reason = match end {
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
pub fn estimate(estimate: ping_pong::Estimate) -> String {
    format!(
        "sockperf: RunTime Estimate={:.3} sec, Time out in {:.3} sec\n",
        sec(estimate.run_time_nsec),
        sec(estimate.time_out_nsec)
    )
}

/// The result of a ping-pong test, from the totals to the percentiles.
pub fn ping_pong(
    run: &ping_pong::Run,
    statistics: &Statistics,
    options: &PingPongOptions,
    style: Style,
) -> String {
    let mut text = statistic_lines(run, statistics, options, style);
    let summary = summary_line(statistics, options);
    // The summary follows the line with the losses.
    let position = text
        .find("sockperf: Total ")
        .or_else(|| text.find(HIGHLIGHTED_TOTAL));
    text.insert_str(position.unwrap_or(text.len()), &summary);
    text
}

/// The same without the summary, as it also stands in the full log.
pub fn statistic_lines(
    run: &ping_pong::Run,
    statistics: &Statistics,
    options: &PingPongOptions,
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
        style.highlight(spread(statistics, options.full_rtt))
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
pub fn throughput(run: &throughput::Run, options: &ThroughputOptions, style: Style) -> String {
    let client = &options.client;
    let run_time_sec = sec(run.run_time_nsec);
    let rate = message_rate(run);
    let mut text = format!(
        "sockperf: Total of {} messages sent in {run_time_sec:.3} sec\n\n",
        run.sent
    );
    if client.message_len != BEST_LEN || client.messages_per_second.is_some() {
        text += &format!("sockperf: {}\n", style.highlight(throughput_note(options)));
    }
    text += &format!("sockperf: Summary: Message Rate is {rate:.0} [msg/sec]");
    if client.message_len > BEST_LEN {
        let fragments = client.message_len.div_ceil(BEST_LEN);
        let packet_rate = rate.round() * fragments as f64;
        write!(
            text,
            ", Packet Rate is about {packet_rate:.0} [pkt/sec] ({fragments} ip frags / msg)"
        )
        .ok();
    }
    let mega_bytes = bandwidth_mbytes_per_sec(run);
    text + &format!(
        "\nsockperf: Summary: BandWidth is {mega_bytes:.3} MBps ({:.3} Mbps)\n",
        mega_bytes * 8.0
    )
}

/// Messages per second.
pub fn message_rate(run: &throughput::Run) -> f64 {
    run.sent as f64 / sec(run.run_time_nsec).max(1e-9)
}

/// 2^20 bytes of messages per second.
pub fn bandwidth_mbytes_per_sec(run: &throughput::Run) -> f64 {
    run.sent_bytes as f64 / sec(run.run_time_nsec).max(1e-9) / f64::from(1u32 << 20)
}

/// Seconds of nanoseconds.
pub fn sec(nsec: u64) -> f64 {
    nsec as f64 / 1e9
}

const RECEIVE_CALL: &str = "using recvfrom() to block on socket(s)";
const HIGHLIGHTED_TOTAL: &str = "sockperf: \x1b[2;35mTotal ";
/// The largest UDP payload that fits into one Ethernet frame.
const BEST_LEN: usize = 1472;

fn total_line(run: &ping_pong::Run, options: &PingPongOptions) -> String {
    let warm_up = match options.length {
        TestLength::TimeSec(_) => format!("Warm up time={} msec", WARM_UP_NSEC / 1_000_000),
        TestLength::Packets(_) => format!("Warm up packets={WARM_UP_PACKETS}"),
    };
    format!(
        "sockperf: [Total Run] RunTime={:.3} sec; {warm_up}; SentMessages={}; ReceivedMessages={}\n",
        sec(run.run_time_nsec),
        run.sent,
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

fn loss_lines(run: &ping_pong::Run, style: Style) -> String {
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
    let ping_pong::Replies {
        late,
        unexpected,
        malformed,
        ..
    } = run.replies;
    if (late, unexpected, malformed) != (0, 0, 0) {
        let others = format!(
            "# late replies = {late}; # unexpected replies = {unexpected}; \
             # malformed datagrams = {malformed}"
        );
        text += &format!("sockperf: {}\n", style.alarm(others));
    }
    text
}

fn summary_line(statistics: &Statistics, options: &PingPongOptions) -> String {
    let what = if options.full_rtt {
        "Round trip"
    } else {
        "Latency"
    };
    let of_burst = match options.client.burst {
        1 => String::new(),
        burst => format!(" of burst of {burst} messages"),
    };
    format!(
        "sockperf: Summary: {what}{of_burst} is {:.3} usec\n",
        statistics.mean_usec
    )
}

fn throughput_note(options: &ThroughputOptions) -> String {
    let client = &options.client;
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
