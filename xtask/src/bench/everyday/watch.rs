//! Why sockets of a service are the kernel's, from the statistics that its processes publish.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use testkit::Namespace;

use crate::packets::Watcher;

/// Where the library at its defaults publishes.
const STATISTICS: &str = "/tmp";
/// Said of what every program has, and no answer to "why".
const USUAL: [&str; 3] = [
    "offloaded",
    "neither bound nor connected yet",
    "bound to a loopback address",
];

#[derive(Debug, Default)]
pub(super) struct Watch(HashMap<i32, Watcher<'static>>);

impl Watch {
    /// Looks at all processes that run inside.
    pub(super) fn look(&mut self, namespace: &Namespace) {
        for pid in namespace.pids() {
            let watcher = self
                .0
                .entry(pid)
                .or_insert_with(|| Watcher::new(Path::new(STATISTICS), pid.unsigned_abs()));
            watcher.look();
        }
    }

    /// Each once.
    pub(super) fn reasons(&self) -> Vec<String> {
        let all: BTreeSet<String> = self.0.values().flat_map(Watcher::reasons).collect();
        let is_unusual = |reason: &String| !USUAL.contains(&reason.as_str());
        all.into_iter().filter(is_unusual).collect()
    }
}
