//! View 3: a block for everything: sockets, multiplexers, queues, rings and pools. What is zero is
//! left out.

use std::fmt::Write;

use stats::{
    PROTOCOL_TCP, PROTOCOL_UDP, PoolSnapshot, QueueSnapshot, RingSnapshot, SocketSnapshot,
};

use crate::rate::Rate;
use crate::sample::Report;
use crate::views::{multiplexing, poll_percent};

/// What puts a terminal's cursor into the corner of an empty screen.
pub(crate) const CLEAR_SCREEN: &str = "\x1b[H\x1b[2J\x1b[3J";

pub(crate) fn format(report: &Report) -> String {
    let mut block = Block {
        text: String::new(),
        rate: report.rate,
    };
    for socket in &report.values.sockets {
        block.socket(report, socket);
    }
    multiplexing::push_blocks(&mut block.text, report);
    for (index, queue) in report.values.queues.iter().enumerate() {
        block.queue(index, queue);
    }
    for (index, ring) in report.values.rings.iter().enumerate() {
        block.ring(index, ring);
    }
    for (index, pool) in report.values.pools.iter().enumerate() {
        block.pool(index, pool);
    }
    if !block.text.is_empty() {
        block.rule();
    }
    block.text
}

struct Block {
    text: String,
    rate: Rate,
}

impl Block {
    fn line(&mut self, text: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{text}");
    }

    fn rule(&mut self) {
        self.line("=".repeat(54));
    }

    fn title(&mut self, title: impl std::fmt::Display) {
        self.rule();
        self.line(format_args!("\t{title}"));
    }

    /// A labelled value, per second where it is a difference.
    fn value(&mut self, label: &str, value: impl std::fmt::Display) {
        let per = self.rate.suffix();
        self.line(format_args!("{label:<20} {value}{per}"));
    }

    /// Kilobytes, packets, and what went wrong. Nothing if all is zero.
    fn traffic(&mut self, label: &str, bytes: u64, packets: u64, eagain: u64, errors: u64) -> bool {
        if bytes + packets + eagain + errors == 0 {
            return false;
        }
        let rate = self.rate;
        self.value(
            label,
            format_args!(
                "{} / {} / {} / {} [kilobytes/packets/eagains/errors]",
                rate.kbytes(bytes),
                rate.count(packets),
                rate.count(eagain),
                rate.count(errors)
            ),
        );
        true
    }

    fn socket(&mut self, report: &Report, it: &SocketSnapshot) {
        self.title(format_args!("Fd=[{}]", it.fd));
        self.identity(report, it);
        let rate = self.rate;
        let mut active = self.traffic(
            "Tx Offload:",
            it.tx_bytes,
            it.tx_packets,
            it.tx_eagain,
            it.tx_errors,
        );
        active |= self.traffic(
            "Tx OS info:",
            it.tx_os_bytes,
            it.tx_os_packets,
            it.tx_os_eagain,
            it.tx_os_errors,
        );
        if it.tx_dummy > 0 {
            active = true;
            self.value("Tx Dummy messages :", rate.count(it.tx_dummy));
        }
        active |= self.traffic(
            "Rx Offload:",
            it.rx_bytes,
            it.rx_packets,
            it.rx_eagain,
            it.rx_errors,
        );
        active |= self.traffic(
            "Rx OS info:",
            it.rx_os_bytes,
            it.rx_os_packets,
            it.rx_os_eagain,
            it.rx_os_errors,
        );
        if it.rx_bytes + it.rx_queue_bytes + it.rx_dropped_bytes > 0 {
            active = true;
            let per = rate.suffix();
            self.line(format_args!(
                "{:<20} cur {} / max {} / dropped{per} {} / limit {}",
                "Rx byte:",
                it.rx_queue_bytes,
                it.rx_queue_bytes_max,
                rate.count(it.rx_dropped_bytes),
                it.rx_queue_bytes_limit
            ));
            self.line(format_args!(
                "{:<20} cur {} / max {} / dropped{per} {}",
                "Rx pkt :",
                it.rx_queue_packets,
                it.rx_queue_packets_max,
                rate.count(it.rx_dropped_packets)
            ));
        }
        if it.rx_zero_copy_packets > 0 {
            self.line(format_args!(
                "{:<20} cur {}",
                "Rx zero copy buffers:", it.rx_zero_copy_packets
            ));
        }
        if it.rx_poll_hit + it.rx_poll_miss > 0 {
            active = true;
            self.value(
                "Rx poll:",
                format_args!(
                    "{} / {} ({:.2}%) [miss/hit]",
                    rate.count(it.rx_poll_miss),
                    rate.count(it.rx_poll_hit),
                    poll_percent(it.rx_poll_hit, it.rx_poll_miss)
                ),
            );
        }
        if it.rx_migrations + it.tx_migrations > 0 {
            let (rx, tx) = (rate.count(it.rx_migrations), rate.count(it.tx_migrations));
            self.value("Ring migrations", format_args!("Rx: {rx}, Tx: {tx}"));
        }
        if it.tx_retransmits > 0 {
            self.value("Retransmissions:", rate.count(it.tx_retransmits));
        }
        if !active {
            self.line("Rx and Tx where not active");
        }
    }

    fn identity(&mut self, report: &Report, it: &SocketSnapshot) {
        let protocol = match it.protocol {
            PROTOCOL_TCP => "TCP",
            PROTOCOL_UDP => "UDP",
            _ => "RAW",
        };
        let blocked = if it.nonblocking {
            "Non-blocked"
        } else {
            "Blocked"
        };
        let members: Vec<_> = report
            .values
            .groups
            .iter()
            .filter(|membership| membership.fd == it.fd)
            .filter_map(|membership| Some(membership.group?.ip()))
            .collect();
        let mut first = format!("- {protocol}, {blocked}");
        if it.protocol == PROTOCOL_UDP {
            first.push_str(if it.mc_loop_off {
                ", MC Loop Disabled"
            } else {
                ", MC Loop Enabled "
            });
            if let Some(interface) = it.mc_interface {
                let _ = write!(first, ", MC IF = [{}]", interface.ip());
            }
        }
        self.line(first);
        for (label, address) in [("Local Address  ", it.local), ("Foreign Address", it.peer)] {
            if let Some(address) = address {
                self.line(format_args!("- {label} = [{address}]"));
            }
        }
        for group in members {
            self.line(format_args!("- Member of = [{group}]"));
        }
        if it.rx_thread + it.tx_thread > 0 {
            self.line(format_args!(
                "- Thread Id Rx: {:>5}, Tx: {:>5}",
                it.rx_thread, it.tx_thread
            ));
        }
    }

    fn queue(&mut self, index: usize, queue: &QueueSnapshot) {
        self.title(format_args!("CQ=[{index}]"));
        let dropped = self.rate.count(queue.rx_dropped);
        self.value("Packets dropped:", dropped);
        self.line(format_args!(
            "{:<20} {}",
            "Packets queue len:", queue.rx_waiting
        ));
        self.line(format_args!(
            "{:<20} {}",
            "Drained max:", queue.rx_drained_max
        ));
        self.line(format_args!(
            "{:<20} {}",
            "Buffer pool size:", queue.buffers
        ));
    }

    fn ring(&mut self, index: usize, ring: &RingSnapshot) {
        self.title(format_args!("RING_ETH=[{index}]"));
        let rate = self.rate;
        for (label, bytes, packets) in [
            ("Tx Offload:", ring.tx_bytes, ring.tx_packets),
            ("Rx Offload:", ring.rx_bytes, ring.rx_packets),
        ] {
            if bytes + packets > 0 {
                self.value(
                    label,
                    format_args!(
                        "{} / {} [kilobytes/packets]",
                        rate.kbytes(bytes),
                        rate.count(packets)
                    ),
                );
            }
        }
        if ring.rx_wakeups > 0 {
            // A ring of AF_XDP is not asked for interrupts: whoever sleeps is woken.
            self.value(
                "Interrupts:",
                format_args!("- / {} [requests/received]", rate.count(ring.rx_wakeups)),
            );
        }
    }

    fn pool(&mut self, index: usize, pool: &PoolSnapshot) {
        self.title(format_args!("BUFFER_POOL(RX)=[{index}]"));
        self.line(format_args!("{:<20} {}", "Size:", pool.free));
        let exhausted = self.rate.count(pool.exhausted);
        self.value("No buffers error:", exhausted);
    }
}
