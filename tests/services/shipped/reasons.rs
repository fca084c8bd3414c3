//! Why sockets of a run's processes were the kernel's, from the statistics that they publish.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use stats::Reader;

const INTERVAL: Duration = Duration::from_millis(10);
/// Said of what every program has, and no answer to "why".
const USUAL: [&str; 3] = [
    "offloaded",
    "neither bound nor connected yet",
    "bound to a loopback address",
];

/// Looks at the processes that publish in `directory` while `body` runs.
pub(crate) fn of<T>(directory: &Path, body: impl FnOnce() -> T) -> (T, Vec<String>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut readers, mut seen) = (BTreeMap::new(), BTreeSet::new());
            while !stop.load(Ordering::Relaxed) {
                look(directory, &mut readers, &mut seen);
                thread::sleep(INTERVAL);
            }
            seen.retain(|reason: &String| !USUAL.contains(&reason.as_str()));
            seen.into_iter().collect()
        });
        let value = body();
        stop.store(true, Ordering::Relaxed);
        (value, watcher.join().expect("the watcher does not panic"))
    })
}

fn look(directory: &Path, readers: &mut BTreeMap<u32, Reader>, seen: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.rsplit_once('.'));
        let Some(pid) = pid.and_then(|(_, pid)| pid.parse().ok()) else {
            continue;
        };
        // One that is not complete yet is complete the next time.
        if !readers.contains_key(&pid)
            && let Ok(reader) = Reader::open(directory, pid)
        {
            readers.insert(pid, reader);
        }
    }
    for reader in readers.values() {
        let open = reader.sockets().unwrap_or_default();
        let closed = reader.closed_sockets().unwrap_or_default();
        let kernels = open
            .iter()
            .chain(&closed)
            .filter(|socket| !socket.offloaded);
        let codes: BTreeSet<_> = kernels.map(|socket| socket.reason).collect();
        let names = reader.reasons().unwrap_or_default();
        let names = names
            .into_iter()
            .filter(|reason| codes.contains(&reason.code));
        seen.extend(names.map(|reason| reason.name));
    }
}
