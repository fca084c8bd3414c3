//! What `--explain` adds to the table: settings, rings, buffer pools, and why sockets are left to
//! the kernel. `explain` says the same in whole sentences (`words.rs`).

use std::fmt::Write;

use stats::{ReasonCounts, RingSnapshot, SocketSnapshot, Statistics};

use crate::rate::Rate;
use crate::sample::Report;
use crate::views::protocol_name as protocol;

pub(crate) fn push(text: &mut String, report: &Report) {
    push_surroundings(text, report);
    for socket in &report.values.sockets {
        push_socket(text, report, socket);
    }
    push_kernel_sockets(text, report);
    push_closed_sockets(text, report);
}

/// Settings, rings, pools, and what else is to be known beside the sockets.
pub(crate) fn push_surroundings(text: &mut String, report: &Report) {
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
    for note in &report.values.notes {
        let about = match note.subject.as_str() {
            "" => String::new(),
            name => format!(" on {name}"),
        };
        let _ = writeln!(text, " Note{about} ({}): {}", note.topic, note.text);
    }
}

/// The sockets that were closed last.
pub(crate) fn push_closed_sockets(text: &mut String, report: &Report) {
    for socket in &report.values.closed_sockets {
        push_closed(text, report, socket);
    }
}

/// What can be changed about a reason, where the library says that.
pub(crate) fn push_advice(text: &mut String, values: &Statistics, code: u32) {
    let advice = advice(values, code);
    if !advice.is_empty() {
        let _ = writeln!(text, "  To change: {advice}.");
    }
}

/// Why a socket is the kernel's, or what of it is.
fn push_socket(text: &mut String, report: &Report, socket: &SocketSnapshot) {
    let (fd, protocol) = (socket.fd, protocol(socket.protocol));
    if !socket.offloaded {
        let why = why(&report.values, socket);
        let _ = writeln!(text, " fd {fd} {protocol} is not offloaded: {why}");
        push_advice(text, &report.values, socket.reason);
    } else if !socket.detail.is_empty() {
        let _ = writeln!(text, " fd {fd} {protocol}: {}", socket.detail);
    }
    let counts = [("Rx", &socket.rx_os_reasons), ("Tx", &socket.tx_os_reasons)];
    for (direction, counts) in counts {
        let counts = by_reason(report, counts);
        if !counts.is_empty() {
            let per = report.rate.suffix();
            let _ = writeln!(
                text,
                " fd {fd} {protocol} {direction} through the kernel, pkt{per}: {counts}"
            );
        }
    }
}

/// How many datagrams the kernel carried for each reason. All of them are the os column.
fn by_reason(report: &Report, counts: &ReasonCounts) -> String {
    let shown = counts.iter().map(|(code, count)| {
        format!(
            "{} {}",
            report.rate.count(count),
            reason(&report.values, code)
        )
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The reason, with the rule behind it and what it is about.
pub(crate) fn why(values: &Statistics, socket: &SocketSnapshot) -> String {
    let mut why = reason(values, socket.reason);
    let detail = Some(&socket.detail).filter(|detail| !detail.is_empty());
    for more in rule(values, socket.rule).iter().chain(detail) {
        why.push_str(": ");
        why.push_str(more);
    }
    why
}

/// Sockets that are never accelerated, one line for each reason.
fn push_kernel_sockets(text: &mut String, report: &Report) {
    let sockets = &report.values.kernel_sockets;
    let mut kinds: Vec<_> = sockets.iter().map(|it| (it.protocol, it.reason)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let fds = sockets
            .iter()
            .filter(|it| (it.protocol, it.reason) == kind)
            .map(|it| it.fd.to_string());
        let fds: Vec<_> = fds.collect();
        let more = fds.len().saturating_sub(FDS_SHOWN);
        let shown = fds[..fds.len().min(FDS_SHOWN)].join(", ");
        let more = match more {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (protocol, reason) = (protocol(kind.0), reason(&report.values, kind.1));
        let _ = writeln!(text, " fd {shown}{more} {protocol}: {reason}");
        push_advice(text, &report.values, kind.1);
    }
}

/// Descriptors of one kind that are named.
const FDS_SHOWN: usize = 16;

/// What a socket was and did that is closed.
fn push_closed(text: &mut String, report: &Report, socket: &SocketSnapshot) {
    let end = |address: Option<std::net::SocketAddr>| {
        address.map_or_else(|| "-".to_owned(), |address| address.to_string())
    };
    let state = if socket.offloaded {
        "offloaded".to_owned()
    } else {
        format!("not offloaded: {}", why(&report.values, socket))
    };
    let _ = writeln!(
        text,
        " Closed fd {} {} {} to {}, {state}; offloaded Rx {} pkt, Tx {} pkt; os Rx {} pkt, Tx {} pkt",
        socket.fd,
        protocol(socket.protocol),
        end(socket.local),
        end(socket.peer),
        socket.rx_packets,
        socket.tx_packets,
        socket.rx_os_packets,
        socket.tx_os_packets,
    );
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
fn rule(values: &Statistics, number: u32) -> Option<String> {
    let place = number.checked_sub(1)?;
    let rules = &values.rules;
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

/// The text of a reason code, or the code where the library gave no text.
pub(crate) fn reason(values: &Statistics, code: u32) -> String {
    let named = values.reasons.iter().find(|reason| reason.code == code);
    match named {
        Some(reason) if !reason.name.is_empty() => reason.name.clone(),
        _ => format!("reason {code}"),
    }
}

/// What can be changed about a reason; empty where the library does not say.
pub(crate) fn advice(values: &Statistics, code: u32) -> &str {
    let named = values.reasons.iter().find(|reason| reason.code == code);
    named.map_or("", |reason| &reason.advice)
}
