//! The text of a run, in the format of the original.
//!
//! Programs read this text, so its oddities are kept: the missing line break after `send on:`, the
//! columns, the wording. Lines that the original does not have appear only when their counts are
//! not 0.

use crate::client::run::{End, Estimate};
use crate::net::address::Flow;
use crate::net::open::BufferSizes;
use crate::options::{ClientOptions, Mode, Multiplexer, Options, Target};
use crate::server::Totals;
use crate::sys::clock::Clock;
use crate::terminal::Style;

mod latency;
mod throughput;

pub use latency::{latency, statistic_lines, usec_divisor};
pub use throughput::{bandwidth_mbytes_per_sec, returned, throughput};

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
            multiplexer.waiting()
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

/// The line that the original prints when the machine cannot keep up with `--mps`.
pub const RATE_TOO_HIGH: &str = "sockperf: Info: The requested message-per-second rate is too high. \
     Try tuning --mps or --burst arguments\n";

/// Seconds of nanoseconds.
pub fn sec(nsec: u64) -> f64 {
    nsec as f64 / 1e9
}

/// Clients of a server that have a line.
const SESSIONS_SHOWN: usize = 16;

#[cfg(test)]
pub(crate) mod tests;
