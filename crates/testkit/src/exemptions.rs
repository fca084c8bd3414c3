//! What the XDP program of a preloaded process leaves to the kernel.

use std::path::PathBuf;
use std::{fs, io};

use crate::sys;

/// How many connections are exempt from the steering of their port, over all interfaces of a
/// process: the values of its maps of flows, which are hashes with keys of 16 and 40 octets.
///
/// # Errors
///
/// The process has ended, or the kernel does not let the test see its maps.
pub fn exempt_connections(pid: u32) -> io::Result<usize> {
    const EXEMPT: u32 = 2;
    let mut count = 0;
    let mut seen = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo"))? {
        // One that was closed meanwhile is no map any more.
        let Some(map) = MapInfo::read(&entry?.path()) else {
            continue;
        };
        if map.is_of_flows() && !seen.contains(&map.id) {
            seen.push(map.id);
            let values = sys::bpf_map_values(map.id, map.key_bytes)?;
            count += values.iter().filter(|value| **value == EXEMPT).count();
        }
    }
    Ok(count)
}

struct MapInfo {
    id: u32,
    kind: u32,
    key_bytes: usize,
    value_bytes: usize,
}

impl MapInfo {
    fn read(path: &PathBuf) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let number = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        Some(Self {
            id: number("map_id:")?,
            kind: number("map_type:")?,
            key_bytes: number("key_size:")? as usize,
            value_bytes: number("value_size:")? as usize,
        })
    }

    fn is_of_flows(&self) -> bool {
        const HASH: u32 = 1;
        self.kind == HASH && self.value_bytes == 4 && [16, 40].contains(&self.key_bytes)
    }
}
