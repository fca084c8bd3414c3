//! A socket's counters as log lines, in the original's words: for `VMA_STATS_FILE`, and for dumps
//! that `vma_stats -S` asks for.

use crate::PROTOCOL_TCP;
use crate::counter::Counter;
use crate::schema::SocketStats;

impl SocketStats {
    /// What is not zero, a line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Lines {
            fd: self.fd.value(),
            lines: Vec::new(),
        };
        lines.traffic(
            "Tx Offload:",
            [
                &self.tx_bytes,
                &self.tx_packets,
                &self.tx_eagain,
                &self.tx_errors,
            ],
        );
        lines.traffic(
            "Tx OS info:",
            [
                &self.tx_os_bytes,
                &self.tx_os_packets,
                &self.tx_os_eagain,
                &self.tx_os_errors,
            ],
        );
        lines.traffic(
            "Rx Offload:",
            [
                &self.rx_bytes,
                &self.rx_packets,
                &self.rx_eagain,
                &self.rx_errors,
            ],
        );
        lines.traffic(
            "Rx OS info:",
            [
                &self.rx_os_bytes,
                &self.rx_os_packets,
                &self.rx_os_eagain,
                &self.rx_os_errors,
            ],
        );
        if self.rx_packets.value() > 0 {
            let share = |dropped: u64, taken: u64| {
                dropped as f64 / dropped.saturating_add(taken).max(1) as f64 * 100.0
            };
            let dropped = self.rx_dropped_bytes.value();
            lines.push(format!(
                "Rx byte: max {} / dropped {dropped} ({:.2}%) / limit {}",
                self.rx_queue_bytes_max.value(),
                share(dropped, self.rx_bytes.value()),
                self.rx_queue_bytes_limit.value()
            ));
            let dropped = self.rx_dropped_packets.value();
            lines.push(format!(
                "Rx pkt : max {} / dropped {dropped} ({:.2}%)",
                self.rx_queue_packets_max.value(),
                share(dropped, self.rx_packets.value())
            ));
        }
        let (hit, miss) = (self.rx_poll_hit.value(), self.rx_poll_miss.value());
        if hit + miss > 0 {
            let share = hit as f64 / (hit + miss) as f64 * 100.0;
            lines.push(format!("Rx poll: {miss} / {hit} ({share:.2}%) [miss/hit]"));
        }
        if lines.lines.is_empty() {
            lines.push("Rx and Tx where not active".to_owned());
        }
        lines.lines
    }
}

impl SocketStats {
    /// What it is: its addresses, and of a stream its state and what waits.
    pub fn identity_lines(&self) -> Vec<String> {
        let mut lines = Lines {
            fd: self.fd.value(),
            lines: Vec::new(),
        };
        for (label, address) in [("Local", &self.local), ("Foreign", &self.peer)] {
            if let Some(address) = address.value() {
                lines.push(format!("- {label} Address = [{address}]"));
            }
        }
        if self.protocol.value() == PROTOCOL_TCP {
            lines.push(format!(
                "- TCP state = {}, {} bytes to send, {} to read, {} segments sent again",
                tcp_state(self.tcp_state.value()),
                self.tx_queue_bytes.value(),
                self.rx_queue_bytes.value(),
                self.tx_retransmits.value(),
            ));
        }
        lines.lines
    }
}

/// The name of a connection's state, by the kernel's number, as the original tool has it; empty
/// where there is none.
pub fn tcp_state(number: u32) -> &'static str {
    match number {
        1 => "ESTABLISHED",
        2 => "SYN_SENT",
        3 => "SYN_RCVD",
        4 => "FIN_WAIT_1",
        5 => "FIN_WAIT_2",
        6 => "TIME_WAIT",
        7 => "CLOSED",
        8 => "CLOSE_WAIT",
        9 => "LAST_ACK",
        10 => "LISTEN",
        11 => "CLOSING",
        _ => "",
    }
}

struct Lines {
    fd: i32,
    lines: Vec<String>,
}

impl Lines {
    fn push(&mut self, text: String) {
        self.lines.push(format!("[fd={}] {text}", self.fd));
    }

    fn traffic(&mut self, label: &str, counters: [&Counter; 4]) {
        let [bytes, packets, eagain, errors] = counters.map(Counter::value);
        if bytes + packets + eagain + errors > 0 {
            self.push(format!(
                "{label} {} / {packets} / {eagain} / {errors} [kilobytes/packets/eagains/errors]",
                bytes / 1024
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_says_where_it_is() {
        let socket = SocketStats::default();
        socket.fd.set(10);
        assert!(socket.identity_lines().is_empty());
        socket.protocol.set(PROTOCOL_TCP);
        socket.local.set("10.0.0.1:80".parse().unwrap());
        socket.peer.set("10.0.0.2:4000".parse().unwrap());
        socket.tcp_state.set(1);
        socket.tx_queue_bytes.set(100);
        assert_eq!(
            socket.identity_lines(),
            [
                "[fd=10] - Local Address = [10.0.0.1:80]",
                "[fd=10] - Foreign Address = [10.0.0.2:4000]",
                "[fd=10] - TCP state = ESTABLISHED, 100 bytes to send, 0 to read, 0 segments sent again",
            ]
        );
    }

    #[test]
    fn lines_are_those_of_the_manual() {
        let socket = SocketStats::default();
        socket.fd.set(10);
        assert_eq!(socket.lines(), ["[fd=10] Rx and Tx where not active"]);
        socket.tx_bytes.add(466_040);
        socket.tx_packets.add(233_020);
        socket.rx_bytes.add(466_040);
        socket.rx_packets.add(233_020);
        socket.rx_poll_hit.add(233_020);
        socket.rx_queue_bytes_max.raise_to(200);
        socket.rx_queue_packets_max.raise_to(1);
        socket.rx_queue_bytes_limit.set(2_000_000);
        assert_eq!(
            socket.lines(),
            [
                "[fd=10] Tx Offload: 455 / 233020 / 0 / 0 [kilobytes/packets/eagains/errors]",
                "[fd=10] Rx Offload: 455 / 233020 / 0 / 0 [kilobytes/packets/eagains/errors]",
                "[fd=10] Rx byte: max 200 / dropped 0 (0.00%) / limit 2000000",
                "[fd=10] Rx pkt : max 1 / dropped 0 (0.00%)",
                "[fd=10] Rx poll: 0 / 233020 (100.00%) [miss/hit]",
            ]
        );
    }
}
