//! View 2: as view 1, with the receive queue's length.

use std::fmt::Write;

use stats::SocketSnapshot;

use crate::rate::Rate;
use crate::sample::Report;
use crate::views::{Columns, multiplexing, poll_percent, push_sent};

#[derive(Debug)]
pub(crate) struct Medium;

impl Columns for Medium {
    fn heading(&self, rate: Rate) -> String {
        let (offloaded, os) = match rate {
            Rate::Total => (
                "----------------------- total offloaded -------------------------",
                "--------- total os ----------",
            ),
            Rate::Over(_) => (
                "-------------------------- offloaded ----------------------------",
                "---------- os ---------",
            ),
        };
        let [packets, kbytes, eagain, error, drop] = ["pkt", "Kbyte", "eagain", "error", "drop"]
            .map(|unit| format!("{unit}{}", rate.suffix()));
        format!(
            " {:<7} {offloaded:>65} {os:>31}\n \
             {:<7} {packets:>10} {kbytes:>7} {eagain:>8} {error:>7} {:>6}{:>23} \
             {packets:>7} {kbytes:>7} {eagain:>7} {error:>7}\n \
             {:>50} {:>6}  {:>6}  {drop:>6} \n",
            "fd", "", "poll%", "---- queue pkt -----", "", "cur", "max",
        )
    }

    fn lines(&self, text: &mut String, report: &Report) {
        for socket in &report.values.sockets {
            push_socket(text, report.rate, socket);
        }
        multiplexing::push_lines(text, report);
    }
}

fn push_socket(text: &mut String, rate: Rate, socket: &SocketSnapshot) {
    let (count, kbytes) = (|value| rate.count(value), |value| rate.kbytes(value));
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        " {:<3} {:<3} {:>10} {:>7} {:>8} {:>7} {:>6.1} {:>6}  {:>6}  {:>6} {:>7} {:>7} {:>7} {:>7}",
        socket.fd,
        "Rx:",
        count(socket.rx_packets),
        kbytes(socket.rx_bytes),
        count(socket.rx_eagain),
        count(socket.rx_errors),
        poll_percent(socket.rx_poll_hit, socket.rx_poll_miss),
        socket.rx_queue_packets,
        socket.rx_queue_packets_max,
        count(socket.rx_dropped_packets),
        count(socket.rx_os_packets),
        kbytes(socket.rx_os_bytes),
        count(socket.rx_os_eagain),
        count(socket.rx_os_errors),
    );
    push_sent(text, rate, socket, 29);
}
