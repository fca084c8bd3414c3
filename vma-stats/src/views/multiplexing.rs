//! What poll, select and epoll sets did: one line each in views 1 and 2, a block in view 3.

use std::fmt::Write;

use stats::MultiplexerSnapshot;

use crate::rate::Rate;
use crate::sample::Report;
use crate::views::poll_percent;

/// `select()`, `epoll[7]`
pub(crate) fn name(calls: &MultiplexerSnapshot) -> String {
    if calls.epfd >= 0 {
        format!("{}[{}]", calls.kind, calls.epfd)
    } else {
        format!("{}()", calls.kind)
    }
}

fn is_active(calls: &MultiplexerSnapshot) -> bool {
    let counts = [
        calls.poll_hit,
        calls.poll_miss,
        calls.timeouts,
        calls.errors,
        calls.rx_ready,
        calls.rx_os_ready,
    ];
    counts.iter().any(|count| *count > 0)
}

/// Those that did something.
fn active(report: &Report) -> impl Iterator<Item = &MultiplexerSnapshot> {
    let all = &report.values.multiplexers;
    all.iter().filter(|calls| is_active(calls))
}

pub(crate) fn push_lines(text: &mut String, report: &Report) {
    let count = |value| report.rate.count(value);
    for calls in active(report) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<8}{:<2} {:<9}{}{:<1}{} {:<12} {:<9}{:<5} {:<7}{:<4} {:<5}{:<2.2}{:<3} {:<5}{}{:<1}",
            name(calls),
            report.rate.suffix(),
            "Rx Ready:",
            count(calls.rx_os_ready),
            "/",
            count(calls.rx_ready),
            "[os/offload]",
            "Timeouts:",
            count(calls.timeouts),
            "Errors:",
            count(calls.errors),
            "Poll:",
            poll_percent(calls.poll_hit, calls.poll_miss),
            "%",
            "Polling CPU:",
            calls.polling_cpu,
            "%",
        );
    }
}

pub(crate) fn push_blocks(text: &mut String, report: &Report) {
    let (count, per) = (|value| report.rate.count(value), report.rate.suffix());
    for calls in active(report) {
        let _ = writeln!(text, "{}", "=".repeat(54));
        let _ = writeln!(text, "\t{}", name(calls));
        let _ = writeln!(text, "Polling CPU:{}%", calls.polling_cpu);
        if calls.thread != 0 {
            let _ = writeln!(text, "- Thread Id: {:>5}", calls.thread);
        }
        let label = |text: &str| format!("{text:<20}");
        if calls.rx_os_ready + calls.rx_ready > 0 {
            let (os, offloaded) = (count(calls.rx_os_ready), count(calls.rx_ready));
            let _ = writeln!(
                text,
                "{} {os} / {offloaded} [os/offload]{per}",
                label("Rx fds ready:")
            );
        }
        push_polls(
            text,
            report.rate,
            "Polls [miss/hit]:",
            calls.poll_miss,
            calls.poll_hit,
        );
        if calls.timeouts > 0 {
            let _ = writeln!(
                text,
                "{} {}{per}",
                label("Timeouts:"),
                count(calls.timeouts)
            );
        }
        if calls.errors > 0 {
            let _ = writeln!(text, "{} {}{per}", label("Errors:"), count(calls.errors));
        }
    }
}

fn push_polls(text: &mut String, rate: Rate, label: &str, miss: u64, hit: u64) {
    if miss + hit > 0 {
        let _ = writeln!(
            text,
            "{label:<20} {} / {} ({:.2}%){}",
            rate.count(miss),
            rate.count(hit),
            poll_percent(hit, miss),
            rate.suffix()
        );
    }
}
