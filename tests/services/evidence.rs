//! What the processes of one run publish of themselves, kept beyond their end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use stats::Reader;

/// How often the directory is read. A process that lives for less may be missed.
const INTERVAL: Duration = Duration::from_millis(1);

/// What went past the kernel in a run.
#[derive(Debug, Default)]
pub(crate) struct PastKernel {
    /// Packets that the rings of all processes received and sent.
    pub(crate) packets: u64,
    /// Of each process, its program and the datagrams that its sockets received and sent.
    pub(crate) datagrams: Vec<(String, u64)>,
}

/// Opens the statistics of every process that publishes them in `directory` while `body` runs; the
/// mappings show the last state also when the process has ended and its file is gone.
pub(crate) fn past_kernel<T>(directory: &Path, body: impl FnOnce() -> T) -> (T, PastKernel) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut readers = BTreeMap::new();
            while !stop.load(Ordering::Relaxed) {
                open_new(directory, &mut readers);
                thread::sleep(INTERVAL);
            }
            let of = |reader: &Reader| (reader.process().program.clone(), datagrams(reader));
            PastKernel {
                packets: readers.values().map(packets).sum(),
                datagrams: readers.values().map(of).collect(),
            }
        });
        let value = body();
        stop.store(true, Ordering::Relaxed);
        (value, watcher.join().expect("the watcher does not panic"))
    })
}

fn open_new(directory: &Path, readers: &mut BTreeMap<u32, Reader>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.rsplit_once('.'));
        let Some(pid) = pid.and_then(|(_, pid)| pid.parse().ok()) else {
            continue;
        };
        // One that is not complete yet is complete the next time.
        if let Ok(reader) = Reader::open(directory, pid) {
            readers.entry(pid).or_insert(reader);
        }
    }
}

fn packets(reader: &Reader) -> u64 {
    let rings = reader.rings().unwrap_or_default();
    rings
        .iter()
        .map(|ring| ring.rx_packets + ring.tx_packets)
        .sum()
}

/// Datagrams of all its sockets, also of those that are closed.
fn datagrams(reader: &Reader) -> u64 {
    let open = reader.sockets().unwrap_or_default();
    let closed = reader.closed_sockets().unwrap_or_default();
    open.iter()
        .chain(&closed)
        .filter(|socket| socket.protocol == stats::PROTOCOL_UDP)
        .map(|socket| socket.rx_packets + socket.tx_packets)
        .sum()
}
