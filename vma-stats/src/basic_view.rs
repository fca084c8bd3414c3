//! View 1: two lines per socket, in the columns of the original tool. Scripts read them.

use std::fmt::Write;

use stats::SocketSnapshot;

use crate::explain;
use crate::rate::Rate;
use crate::sample::Report;

/// Formats report after report and remembers when the heading is due again.
#[derive(Debug, Default)]
pub(crate) struct BasicView {
    explain: bool,
    /// Lines since the heading; `None` before the first one.
    lines: Option<usize>,
}

impl BasicView {
    /// With `explain`, rings, pools and reasons follow the table.
    pub(crate) fn new(explain: bool) -> Self {
        Self {
            explain,
            lines: None,
        }
    }

    pub(crate) fn format(&mut self, report: &Report) -> String {
        let mut text = String::new();
        for socket in &report.values.sockets {
            push_socket(&mut text, report.rate, socket);
        }
        if self.explain {
            explain::push(&mut text, report);
        }
        if !text.is_empty() {
            text.push_str(&"-".repeat(79));
            text.push('\n');
        }
        let lines = text.lines().count();
        match &mut self.lines {
            Some(printed) if *printed < SCREEN_LINES => *printed += lines,
            due => {
                *due = Some(lines);
                text.insert_str(0, &heading(report.rate));
            }
        }
        text
    }
}

/// The heading is repeated after a screenful of lines.
const SCREEN_LINES: usize = 24;

fn heading(rate: Rate) -> String {
    let (offloaded, os) = match rate {
        Rate::Total => (
            "------------ total offloaded -------------",
            "--------- total os ----------",
        ),
        Rate::Over(_) => (
            "--------------- offloaded ----------------",
            "---------- os ---------",
        ),
    };
    let [packets, kbytes, eagain, error] =
        ["pkt", "Kbyte", "eagain", "error"].map(|unit| format!("{unit}{}", rate.suffix()));
    format!(
        " {:<7} {offloaded:>42} {os:>31}\n \
         {:<7} {packets:>10} {kbytes:>7} {eagain:>8} {error:>7} {:>6} \
         {packets:>7} {kbytes:>7} {eagain:>7} {error:>7}\n",
        "fd", "", "poll%",
    )
}

fn push_socket(text: &mut String, rate: Rate, socket: &SocketSnapshot) {
    let poll = poll_percent(socket.rx_poll_hit, socket.rx_poll_miss);
    let (count, kbytes) = (|value| rate.count(value), |value| rate.kbytes(value));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        " {:<3} {:<3} {:>10} {:>7} {:>8} {:>7} {:>6.1} {:>7} {:>7} {:>7} {:>7}",
        socket.fd,
        "Rx:",
        count(socket.rx_packets),
        kbytes(socket.rx_bytes),
        count(socket.rx_eagain),
        count(socket.rx_errors),
        poll,
        count(socket.rx_os_packets),
        kbytes(socket.rx_os_bytes),
        count(socket.rx_os_eagain),
        count(socket.rx_os_errors),
    );
    let _ = writeln!(
        text,
        " {:<3} {:<3} {:>10} {:>7} {:>8} {:>7} {:<6} {:>7} {:>7} {:>7} {:>7}",
        "",
        "Tx:",
        count(socket.tx_packets),
        kbytes(socket.tx_bytes),
        count(socket.tx_eagain),
        count(socket.tx_errors),
        "",
        count(socket.tx_os_packets),
        kbytes(socket.tx_os_bytes),
        count(socket.tx_os_eagain),
        count(socket.tx_os_errors),
    );
}

/// The share of polls that found something; 0 when nothing was polled.
fn poll_percent(hit: u64, miss: u64) -> f64 {
    let polls = hit as f64 + miss as f64;
    if polls == 0.0 {
        0.0
    } else {
        hit as f64 / polls * 100.0
    }
}

#[cfg(test)]
mod tests;
