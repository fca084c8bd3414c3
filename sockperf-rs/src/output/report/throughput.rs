//! The result of a throughput test.

use std::fmt::Write;

use super::sec;
use crate::client::replies::Replies;
use crate::client::run::Sending;
use crate::options::ClientOptions;
use crate::terminal::Style;

/// The result of a throughput test.
pub fn throughput(run: &Sending, options: &ClientOptions, style: Style) -> String {
    let run_time_sec = sec(run.run_time_nsec);
    let rate = run.message_rate();
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
    text + &bandwidth_line("BandWidth", bandwidth_mbytes_per_sec(run), options)
}

/// What came back of a throughput test in both directions.
pub fn returned(run: &Sending, returned: &Replies, options: &ClientOptions) -> String {
    let seconds = sec(run.run_time_nsec).max(1e-9);
    let rate = returned.received as f64 / seconds;
    let mega_bytes = returned.received_bytes as f64 / seconds / f64::from(1u32 << 20);
    let missing = run.sent.saturating_sub(returned.received);
    let percent = missing as f64 * 100.0 / run.sent.max(1) as f64;
    format!(
        "sockperf: Summary: Return Message Rate is {rate:.0} [msg/sec]{}\
         sockperf: # messages that did not come back = {missing} ({percent:.3} %)\n",
        bandwidth_line("Return BandWidth", mega_bytes, options)
    )
}

fn bandwidth_line(name: &str, mega_bytes: f64, options: &ClientOptions) -> String {
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
        "\nsockperf: Summary: {name} is {value:.decimals$} {unit}Bps ({:.decimals$} {unit}bps)\n",
        value * 8.0
    )
}

/// 2^20 bytes of messages per second.
pub fn bandwidth_mbytes_per_sec(run: &Sending) -> f64 {
    run.sent_bytes as f64 / sec(run.run_time_nsec).max(1e-9) / f64::from(1u32 << 20)
}

/// The largest UDP payload that fits into one Ethernet frame.
const BEST_LEN: usize = 1472;

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
