//! View 1: two lines per socket, in the columns of the original tool. Scripts read them.

use std::fmt::Write;

use stats::SocketSnapshot;

use crate::explain;
use crate::rate::Rate;
use crate::sample::Report;
use crate::views::{Columns, multiplexing, poll_percent, push_sent};

/// The lines of view 1. With `explained`, rings, pools and reasons follow the table.
#[derive(Debug)]
pub(crate) struct Basic {
    pub(crate) explained: bool,
}

impl Columns for Basic {
    fn heading(&self, rate: Rate) -> String {
        heading(rate)
    }

    fn lines(&self, text: &mut String, report: &Report) {
        for socket in &report.values.sockets {
            push_socket(text, report.rate, socket);
        }
        multiplexing::push_lines(text, report);
        if self.explained {
            explain::push(text, report);
        }
    }
}

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
    push_sent(text, rate, socket, 6);
}

#[cfg(test)]
mod tests;
