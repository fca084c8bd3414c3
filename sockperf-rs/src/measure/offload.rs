//! What libvma did with the process's sockets, from its statistics.

use std::env;
use std::fs;
use std::path::Path;
use std::process;

use serde::Serialize;
use stats::{Reader, SocketSnapshot};

/// What libvma did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Offload {
    /// Version of the library; absent if it publishes no statistics.
    pub version: Option<String>,
    /// Messages received and sent in user space.
    pub rx_packets: u64,
    /// See `rx_packets`.
    pub tx_packets: u64,
    /// Messages received and sent through the kernel.
    pub rx_os_packets: u64,
    /// See `rx_os_packets`.
    pub tx_os_packets: u64,
    /// Messages dropped because a socket's queue was full.
    pub rx_dropped_packets: u64,
    /// Receive calls that found data while they polled.
    pub rx_poll_hit: u64,
    /// Receive calls that went to sleep.
    pub rx_poll_miss: u64,
    /// The rings.
    pub rings: Vec<Ring>,
    /// Why sockets, or some of their messages, were left to the kernel.
    pub reasons: Vec<String>,
}

/// A ring's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ring {
    /// Name of the interface.
    pub interface: String,
    /// How packets are exchanged with the device.
    pub mode: String,
    /// Packets received.
    pub rx_packets: u64,
    /// Packets dropped for want of a socket, a buffer, or valid contents.
    pub rx_dropped: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// System calls that told the device to send.
    pub tx_kicks: u64,
    /// Packets refused because the transmit queue was full.
    pub tx_full: u64,
}

/// Where the library writes its statistics unless the variable says otherwise.
const DEFAULT_DIRECTORY: &str = "/tmp";

impl Offload {
    /// Reads the counters of this process; `None` without libvma. The latest sockets that were
    /// closed count, too.
    pub fn read() -> Option<Self> {
        let directory = env::var_os("VMA_STATS_SHMEM_DIR");
        let directory = directory.as_deref().filter(|it| !it.is_empty());
        let directory = directory.map_or_else(|| Path::new(DEFAULT_DIRECTORY), Path::new);
        // A file there may be that of a dead process, or of one with this number in another
        // container.
        let statistics = format!("{}{}", stats::FILE_PREFIX, process::id());
        let reader = has_in_memory(|name| name == statistics)
            .then(|| Reader::open(directory, process::id()).ok());
        let Some(reader) = reader.flatten() else {
            let is_loaded = has_in_memory(|name| name.starts_with("libvma.so"));
            return is_loaded.then(Self::default);
        };
        let mut offload = Self {
            version: Some(reader.process().library_version.clone()),
            ..Self::default()
        };
        let reasons = reader.reasons().unwrap_or_default();
        let reason_name = |code: u32| {
            let reason = reasons.iter().find(|reason| reason.code == code);
            reason.map_or_else(|| format!("reason {code}"), |reason| reason.name.clone())
        };
        let sockets = reader.sockets().unwrap_or_default();
        let closed = reader.closed_sockets().unwrap_or_default();
        for socket in sockets.into_iter().chain(closed) {
            offload.add_socket(&socket);
            let carried = [&socket.rx_os_reasons, &socket.tx_os_reasons];
            let carried = carried.into_iter().flat_map(|counts| counts.iter());
            for (code, _) in carried.filter(|&(_, count)| count > 0) {
                offload.add_reason(reason_name(code));
            }
            if !socket.offloaded {
                let reason = reason_name(socket.reason);
                let detail = socket.detail.as_str();
                offload.add_reason(match detail {
                    "" => reason,
                    detail => format!("{reason}: {detail}"),
                });
            }
        }
        for socket in reader.kernel_sockets().unwrap_or_default() {
            offload.add_reason(reason_name(socket.reason));
        }
        for ring in reader.rings().unwrap_or_default() {
            offload.rings.push(Ring {
                interface: ring.ifname,
                mode: ring.mode,
                rx_packets: ring.rx_packets,
                rx_dropped: ring.rx_dropped_no_socket
                    + ring.rx_dropped_malformed
                    + ring.rx_dropped_checksum
                    + ring.rx_dropped_no_frame,
                tx_packets: ring.tx_packets,
                tx_kicks: ring.tx_kicks,
                tx_full: ring.tx_full,
            });
        }
        Some(offload)
    }

    fn add_socket(&mut self, socket: &SocketSnapshot) {
        self.rx_packets += socket.rx_packets;
        self.tx_packets += socket.tx_packets;
        self.rx_os_packets += socket.rx_os_packets;
        self.tx_os_packets += socket.tx_os_packets;
        self.rx_dropped_packets += socket.rx_dropped_packets;
        self.rx_poll_hit += socket.rx_poll_hit;
        self.rx_poll_miss += socket.rx_poll_miss;
    }

    fn add_reason(&mut self, reason: String) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    /// The lines of the report.
    pub fn lines(&self) -> String {
        let Some(version) = &self.version else {
            return String::new();
        };
        let mut text = format!(
            "sockperf: libvma {}: Rx offloaded={}; Rx OS={}; Tx offloaded={}; Tx OS={}; \
             Rx dropped={}; poll hit={}; poll miss={}\n",
            version,
            self.rx_packets,
            self.rx_os_packets,
            self.tx_packets,
            self.tx_os_packets,
            self.rx_dropped_packets,
            self.rx_poll_hit,
            self.rx_poll_miss
        );
        for ring in &self.rings {
            text += &format!(
                "sockperf: libvma ring {} ({}): Rx={}; Rx dropped={}; Tx={}; Tx kicks={}; Tx full={}\n",
                ring.interface,
                ring.mode,
                ring.rx_packets,
                ring.rx_dropped,
                ring.tx_packets,
                ring.tx_kicks,
                ring.tx_full
            );
        }
        text
    }

    /// A sentence for the user if this was no measurement of libvma: of `messages` that the test
    /// sent and received, more than one in a hundred went through the kernel.
    pub fn warning(&self, messages: u64) -> Option<String> {
        if self.version.is_none() {
            return Some(format!(
                "WARNING: libvma is loaded, but publishes no statistics: it carries no socket of this \
                 process, or cannot write them; {messages} messages most likely went through the kernel"
            ));
        }
        let offloaded = self.rx_packets + self.tx_packets;
        // What libvma does not follow at all is in no column.
        let through_kernel =
            (self.rx_os_packets + self.tx_os_packets).max(messages.saturating_sub(offloaded));
        let is_most = through_kernel > (offloaded + through_kernel) / 100;
        (is_most && messages > 0).then(|| {
            let why = if self.reasons.is_empty() {
                String::new()
            } else {
                format!(" ({})", self.reasons.join("; "))
            };
            format!(
                "WARNING: libvma is loaded, but {through_kernel} of {} messages went through the \
                 kernel{why}",
                offloaded + through_kernel
            )
        })
    }
}

/// Whether this process has a file of such a name in its memory, as it has the library and its
/// statistics.
fn has_in_memory(is_it: impl Fn(&str) -> bool) -> bool {
    let maps = fs::read("/proc/self/maps").unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    let names = maps.lines().filter_map(|line| line.rsplit_once('/'));
    names.map(|(_, name)| name).any(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_of_the_kernel_is_told() {
        let offload = |offloaded, os| Offload {
            version: Some("1".to_owned()),
            tx_packets: offloaded,
            tx_os_packets: os,
            reasons: vec!["multicast".to_owned()],
            ..Offload::default()
        };
        assert_eq!(offload(1000, 5).warning(1005), None);
        assert_eq!(offload(0, 0).warning(0), None);
        let text = offload(10, 30).warning(40).unwrap();
        assert!(text.contains("30 of 40 messages"), "{text}");
        assert!(text.contains("(multicast)"), "{text}");
        let unseen = Offload::default();
        assert!(unseen.warning(7).unwrap().contains("no statistics"));
        assert_eq!(unseen.lines(), "");
        // TCP: nothing is counted.
        let text = offload(0, 0).warning(500).unwrap();
        assert!(text.contains("500 of 500 messages"), "{text}");
    }

    #[test]
    fn files_in_memory_are_known() {
        let program = env::current_exe().unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert!(has_in_memory(|it| it == name));
        assert!(!has_in_memory(|it| it == "vmastat.1"));
    }

    #[test]
    fn without_the_library_there_is_nothing() {
        assert_eq!(Offload::read(), None);
    }
}
