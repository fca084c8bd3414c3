//! What `--explain` adds to the table: settings, rings, buffer pools, and why sockets are left to the kernel.

use std::fmt::Write;

use stats::{PROTOCOL_TCP, PROTOCOL_UDP, RingSnapshot, SocketSnapshot};

use crate::rate::Rate;
use crate::sample::Report;

pub(crate) fn push(text: &mut String, report: &Report) {
    let rate = report.rate;
    push_settings(text, report);
    for ring in &report.values.rings {
        push_ring(text, rate, ring);
    }
    for pool in &report.values.pools {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            " Pool: {} of {} buffers free, {} bytes each, exhausted {}{}",
            pool.free,
            pool.frames,
            pool.frame_bytes,
            rate.count(pool.exhausted),
            rate.suffix(),
        );
    }
    for socket in report
        .values
        .sockets
        .iter()
        .filter(|socket| !socket.offloaded)
    {
        let _ = writeln!(
            text,
            " fd {} {} is not offloaded: {}",
            socket.fd,
            protocol(socket),
            reason(report, socket.reason),
        );
        if let Some(rule) = rule(report, socket.rule) {
            text.pop();
            let _ = writeln!(text, ": {rule}");
        }
    }
}

/// The settings that are not defaults, on one line.
fn push_settings(text: &mut String, report: &Report) {
    let settings = &report.values.settings;
    let set = settings.iter().filter(|it| it.origin != "default");
    let set: Vec<_> = set
        .map(|it| format!("{}={} ({})", it.name, it.value, it.origin))
        .collect();
    if !set.is_empty() {
        let _ = writeln!(text, " Settings: {}", set.join(", "));
    }
}

/// The rule with this number, and where it stands.
fn rule(report: &Report, number: u32) -> Option<String> {
    let place = number.checked_sub(1)?;
    let rules = &report.values.rules;
    Some(match rules.iter().find(|rule| rule.place == place) {
        Some(rule) => format!("\"{}\" ({})", rule.rule, rule.origin),
        None => format!("rule {number}"),
    })
}

fn push_ring(text: &mut String, rate: Rate, ring: &RingSnapshot) {
    let per = rate.suffix();
    let count = |value| rate.count(value);
    let _ = writeln!(
        text,
        " Ring {} ({}): Rx {} pkt{per} {} Kbyte{per}, Tx {} pkt{per} {} Kbyte{per}, dropped{per}: \
         {} no socket, {} malformed, {} checksum, {} no buffer, {} tx full",
        ring.ifname,
        ring.mode,
        count(ring.rx_packets),
        rate.kbytes(ring.rx_bytes),
        count(ring.tx_packets),
        rate.kbytes(ring.tx_bytes),
        count(ring.rx_dropped_no_socket),
        count(ring.rx_dropped_malformed),
        count(ring.rx_dropped_checksum),
        count(ring.rx_dropped_no_frame),
        count(ring.tx_full),
    );
}

fn protocol(socket: &SocketSnapshot) -> String {
    match socket.protocol {
        PROTOCOL_TCP => "tcp".to_owned(),
        PROTOCOL_UDP => "udp".to_owned(),
        other => format!("protocol {other}"),
    }
}

/// The text of a reason code, or the code where the library gave no text.
fn reason(report: &Report, code: u32) -> String {
    let named = report
        .values
        .reasons
        .iter()
        .find(|reason| reason.code == code);
    match named {
        Some(reason) if !reason.name.is_empty() => reason.name.clone(),
        _ => format!("reason {code}"),
    }
}
