//! `vma_stats explain`: in plain words why each socket is, or is not, accelerated, and what to
//! change.

use std::fmt::Write;
use std::net::SocketAddr;

use stats::{ReasonCounts, SocketSnapshot, Statistics};

use crate::explain::{self, push_advice, reason, why};
use crate::sample::Report;
use crate::views::protocol_name;

/// Of all sockets, or of one. `None`: there is no such socket.
pub(crate) fn format(report: &Report, fd: Option<i32>) -> Option<String> {
    let values = &report.values;
    let wanted = |other: i32| fd.is_none_or(|fd| fd == other);
    let mut text = String::new();
    for socket in values.sockets.iter().filter(|socket| wanted(socket.fd)) {
        push_socket(&mut text, values, socket);
    }
    for socket in values.kernel_sockets.iter().filter(|it| wanted(it.fd)) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            text,
            "fd {} ({}) is served by the kernel: {}.",
            socket.fd,
            protocol_name(socket.protocol),
            reason(values, socket.reason)
        );
        push_advice(&mut text, values, socket.reason);
    }
    if fd.is_some() && text.is_empty() {
        return None;
    }
    if text.is_empty() {
        text.push_str("The process has no sockets that the library knows.\n");
    }
    if fd.is_none() {
        let mut rest = String::new();
        explain::push_closed_sockets(&mut rest, report);
        explain::push_surroundings(&mut rest, report);
        for line in rest.lines() {
            text += line.trim_start();
            text.push('\n');
        }
    }
    Some(text)
}

fn push_socket(text: &mut String, values: &Statistics, socket: &SocketSnapshot) {
    let end = |address: Option<SocketAddr>| {
        address.map_or_else(|| "-".to_owned(), |address| address.to_string())
    };
    let _ = write!(text, "fd {} ({}", socket.fd, protocol_name(socket.protocol));
    match (socket.local, socket.peer) {
        (None, None) => {}
        (local, None) => {
            let _ = write!(text, " {}", end(local));
        }
        (local, peer) => {
            let _ = write!(text, " {} to {}", end(local), end(peer));
        }
    }
    if socket.offloaded {
        let _ = writeln!(text, ") is accelerated.");
        if !socket.detail.is_empty() {
            let _ = writeln!(text, "  But: {}.", socket.detail);
        }
    } else {
        let _ = writeln!(text, ") is served by the kernel: {}.", why(values, socket));
        push_advice(text, values, socket.reason);
    }
    push_way(
        text,
        values,
        "received",
        [socket.rx_packets, socket.rx_os_packets],
        &socket.rx_os_reasons,
    );
    push_way(
        text,
        values,
        "sent",
        [socket.tx_packets, socket.tx_os_packets],
        &socket.tx_os_reasons,
    );
    if socket.rx_dropped_packets > 0 {
        let _ = writeln!(
            text,
            "  {} packets were dropped because nobody read them in time. To change: read faster, or raise SO_RCVBUF.",
            socket.rx_dropped_packets
        );
    }
    if let (Some(half), Some(most)) = (
        socket.rx_latency.quantile(0.5),
        socket.rx_latency.quantile(0.99),
    ) {
        let _ = writeln!(
            text,
            "  From arrival in user space to the program: half within {half} ns, 99 % within {most} ns."
        );
    }
}

/// Which share of the packets went which way, and why the rest did not.
fn push_way(
    text: &mut String,
    values: &Statistics,
    verb: &str,
    [past, through]: [u64; 2],
    reasons: &ReasonCounts,
) {
    let all = past.saturating_add(through);
    if all == 0 {
        return;
    }
    let share = past as f64 / all as f64 * 100.0;
    let _ = writeln!(
        text,
        "  {all} packets {verb}: {share:.1} % past the kernel, {:.1} % through it.",
        100.0 - share
    );
    for (code, count) in reasons.iter() {
        let _ = writeln!(
            text,
            "    {count} through the kernel: {}.",
            reason(values, code)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::Fixture;

    #[test]
    fn words_say_the_way_of_the_packets_and_what_to_change() {
        let fixture = Fixture::new();
        let segment = &fixture.segment;
        segment.reason_names(&[
            "offloaded",
            "TCP over IPv6 is the kernel's for now",
            "SO_REUSEPORT is set",
        ]);
        segment.reason_advice(&["", "Nothing", "Do not set SO_REUSEPORT"]);
        let fast = segment.claim_socket();
        fast.fd.set(5);
        fast.protocol.set(stats::PROTOCOL_UDP);
        fast.local.set("10.0.0.1:80".parse().unwrap());
        fast.set_offloaded();
        fast.rx_packets.add(995);
        fast.rx_os_packets.add(5);
        (0..5).for_each(|_| fast.rx_os_reasons.count(2));
        let slow = segment.claim_socket();
        slow.fd.set(6);
        slow.protocol.set(stats::PROTOCOL_UDP);
        slow.set_not_offloaded(2, 0);
        let stream = segment.claim_kernel_socket();
        stream.fd.set(7);
        stream.protocol.set(stats::PROTOCOL_TCP);
        stream.reason.set(1);
        segment.note("eth0", "vlan", "tags are stripped");
        let closed = segment.claim_socket();
        closed.fd.set(8);
        segment.remember_closed(&closed);
        drop(closed);
        let report = fixture.sample().totals();
        let text = format(&report, None).unwrap();
        let expected = "\
fd 5 (udp 10.0.0.1:80) is accelerated.
  1000 packets received: 99.5 % past the kernel, 0.5 % through it.
    5 through the kernel: SO_REUSEPORT is set.
fd 6 (udp) is served by the kernel: SO_REUSEPORT is set.
  To change: Do not set SO_REUSEPORT.
fd 7 (tcp) is served by the kernel: TCP over IPv6 is the kernel's for now.
  To change: Nothing.
Closed fd 8 protocol 0 - to -, not offloaded: offloaded; offloaded Rx 0 pkt, Tx 0 pkt; os Rx 0 pkt, Tx 0 pkt
Note on eth0 (vlan): tags are stripped
";
        assert_eq!(text, expected);
        let one = format(&report, Some(6)).unwrap();
        assert!(one.starts_with("fd 6 ") && one.lines().count() == 2);
        assert_eq!(format(&report, Some(99)), None);
        // The table's explanation has the same advice.
        let mut beside_table = String::new();
        explain::push(&mut beside_table, &report);
        for part in [
            "To change: Do not set SO_REUSEPORT.",
            "To change: Nothing.",
            "tags are stripped",
        ] {
            assert!(beside_table.contains(part), "{beside_table}");
        }
    }
}
