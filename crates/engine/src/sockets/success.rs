//! The word of success: once in a process, when its first socket is past the kernel.

use std::sync::atomic::{AtomicBool, Ordering};

use stats::{OpenRing, Segment};

/// A child that comes by fork(2) has it from its parent: its servers' sockets are no news.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// Says by which interfaces sockets go past the kernel, unless that was said.
pub(super) fn say_once(segment: &Segment) {
    if IS_SAID.load(Ordering::Relaxed) || !log::log_enabled!(log::Level::Info) {
        return;
    }
    let rings = segment.open_rings();
    if rings.is_empty() || IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    for line in lines(&rings) {
        log::info!("{line}");
    }
}

/// `vb: offloaded, xdp generic, 1 queue`
fn lines(rings: &[OpenRing]) -> Vec<String> {
    let mut names: Vec<&str> = rings.iter().map(|ring| ring.ifname.as_str()).collect();
    names.dedup();
    let plural = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    };
    let line = |name: &str| {
        let own = || rings.iter().filter(|ring| ring.ifname == name);
        let mode = own().next().map_or("", |ring| ring.mode.as_str());
        let count = match own().count() {
            1 => {
                let queues = own().map(|ring| ring.queues as usize).sum();
                plural(queues, "queue")
            }
            rings => plural(rings, "ring"),
        };
        format!("{name}: offloaded, {mode}, {count}")
    };
    names.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_interface() {
        let ring = |ifname: &str, queues| OpenRing {
            ifname: ifname.to_owned(),
            mode: "xdp native".to_owned(),
            queues,
        };
        let rings = [
            ring("vb", 1),
            ring("ens1f0", 4),
            ring("ens2", 1),
            ring("ens2", 1),
        ];
        let expected = [
            "vb: offloaded, xdp native, 1 queue",
            "ens1f0: offloaded, xdp native, 4 queues",
            "ens2: offloaded, xdp native, 2 rings",
        ];
        assert_eq!(lines(&rings), expected);
    }
}
