//! What the process itself wants to know of its rings.

use crate::segment::Segment;

/// A ring that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenRing {
    /// The interface's name.
    pub ifname: String,
    /// How packets come: `xdp native`.
    pub mode: String,
    /// The interface's queues that it receives from.
    pub queues: u32,
}

impl Segment {
    /// The rings of all interfaces.
    pub fn open_rings(&self) -> Vec<OpenRing> {
        let rings = self.core.sections.rings.in_use();
        let shown = |ring: &crate::schema::RingStats| OpenRing {
            ifname: ring.ifname.value(),
            mode: ring.mode.value(),
            queues: ring.queues.value(),
        };
        rings.map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Capacity, Identity};

    #[test]
    fn closed_rings_are_left_out() {
        let capacity = Capacity {
            sockets: 1,
            connections: 1,
            rings: 2,
            pools: 1,
            reasons: 1,
            settings: 1,
            rules: 1,
        };
        let segment = Segment::private(&Identity::of_this_process("0"), capacity);
        let rings = ["va", "vb"].map(|name| {
            let ring = segment.claim_ring();
            ring.ifname.set(name);
            ring.mode.set("xdp native");
            ring.queues.set(4);
            ring
        });
        let [closed, _open] = rings;
        drop(closed);
        let open = OpenRing {
            ifname: "vb".to_owned(),
            mode: "xdp native".to_owned(),
            queues: 4,
        };
        assert_eq!(segment.open_rings(), [open]);
    }
}
