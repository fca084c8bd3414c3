//! What a process with libvma did, from the statistics that it publishes while it lives.

use std::collections::{BTreeSet, HashMap};
use std::ops::AddAssign;
use std::path::Path;

use stats::Reader;

/// Packets of all sockets of a process, both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Packets {
    /// Through user space.
    pub(crate) offloaded: u64,
    /// Through the kernel.
    pub(crate) os: u64,
}

impl AddAssign for Packets {
    fn add_assign(&mut self, other: Self) {
        self.offloaded += other.offloaded;
        self.os += other.os;
    }
}

/// Looks at a process's statistics again and again, because they end with its sockets.
#[derive(Debug)]
pub(crate) struct Watcher<'a> {
    directory: &'a Path,
    pid: u32,
    reader: Option<Reader>,
    /// The last look at every socket, by its place and the generation of that place.
    sockets: HashMap<(u32, u64), Look>,
    /// Codes of the reasons why sockets that have been closed were not offloaded: of those that no
    /// look has met.
    closed: BTreeSet<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    packets: Packets,
    /// Code of the reason why the socket is not offloaded.
    reason: Option<u32>,
}

impl<'a> Watcher<'a> {
    /// For process `pid`, which publishes in `directory` or will soon.
    pub(crate) fn new(directory: &'a Path, pid: u32) -> Self {
        Self {
            directory,
            pid,
            reader: None,
            sockets: HashMap::new(),
            closed: BTreeSet::new(),
        }
    }

    /// Notes the present counters. Statistics that cannot be read count as none: in the end they
    /// show as packets that are missing.
    pub(crate) fn look(&mut self) {
        if self.reader.is_none() {
            self.reader = Reader::open(self.directory, self.pid).ok();
        }
        let Some(reader) = &self.reader else { return };
        for socket in reader.sockets().unwrap_or_default() {
            let last = Look {
                packets: Packets {
                    offloaded: socket.rx_packets + socket.tx_packets,
                    os: socket.rx_os_packets + socket.tx_os_packets,
                },
                reason: (!socket.offloaded).then_some(socket.reason),
            };
            self.sockets.insert((socket.slot, socket.generation), last);
        }
        let closed = reader.closed_sockets().unwrap_or_default();
        let left = closed.iter().filter(|socket| !socket.offloaded);
        self.closed.extend(left.map(|socket| socket.reason));
    }

    /// The sum over all sockets that were seen.
    pub(crate) fn packets(&self) -> Packets {
        let mut sum = Packets::default();
        self.sockets.values().for_each(|look| sum += look.packets);
        sum
    }

    /// Why sockets were not offloaded when they were last seen or when they were closed, each
    /// reason once.
    pub(crate) fn reasons(&self) -> BTreeSet<String> {
        let codes: BTreeSet<u32> = self
            .sockets
            .values()
            .filter_map(|look| look.reason)
            .chain(self.closed.iter().copied())
            .collect();
        let names = self
            .reader
            .as_ref()
            .and_then(|reader| reader.reasons().ok());
        let names = names
            .into_iter()
            .flatten()
            .filter(|reason| codes.contains(&reason.code));
        names
            .map(|reason| reason.name)
            .filter(|name| !name.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::{Capacity, Identity, Segment};

    #[test]
    fn counters_of_a_closed_socket_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let mut watcher = Watcher::new(directory.path(), pid);
        watcher.look();
        assert_eq!(watcher.packets(), Packets::default());

        let capacity = Capacity {
            sockets: 4,
            connections: 4,
            rings: 1,
            pools: 1,
            reasons: 4,
            settings: 0,
            rules: 0,
        };
        let identity = Identity::of_this_process("0.1.0");
        let segment = Segment::create(directory.path(), &identity, capacity).unwrap();
        segment.reason_names(&["", "loopback", "fork", "passed"]);
        let socket = segment.claim_socket();
        socket.set_offloaded();
        socket.rx_packets.add(5);
        socket.tx_packets.add(7);
        watcher.look();
        socket.tx_packets.add(1);
        watcher.look();
        drop(socket);
        let other = segment.claim_socket();
        other.set_not_offloaded(1, 0);
        watcher.look();
        other.set_not_offloaded(2, 0);
        other.rx_os_packets.add(3);
        other.tx_os_packets.add(4);
        watcher.look();
        watcher.look();
        let brief = segment.claim_socket();
        brief.set_not_offloaded(3, 0);
        segment.remember_closed(&brief);
        drop(brief);
        watcher.look();

        assert_eq!(
            watcher.packets(),
            Packets {
                offloaded: 13,
                os: 7
            }
        );
        let reasons = ["fork", "passed"].map(str::to_owned);
        assert_eq!(watcher.reasons(), BTreeSet::from(reasons));
    }
}
