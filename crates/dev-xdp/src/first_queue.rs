//! Queue 0 of an interface under a program of one's own, for measurements.

use std::io;
use std::os::fd::AsRawFd;

use dev_core::{FramePool, ThreadMode};

use crate::bpf::BpfError;
use crate::bpf::link::{AttachMode, XdpLink};
use crate::bpf::program::{FlowMaps, Program};
use crate::rings::{OwnRx, OwnTx, XdpKick};
use crate::xsk::{Binding, Mapping, Patience, SendingXsk, Sizes, Umem, Xsk};

const FRAMES: u32 = 1024;
const RING_ENTRIES: u32 = 256;
/// So much of a received frame is brought into the cache: that of any ping.
const PREFETCHED: usize = 128;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) pool: FramePool,
    pub(crate) rx: OwnRx,
    pub(crate) tx: OwnTx,
    pub(crate) kick: XdpKick,
    /// Behind the rings, which they are.
    _mappings: Mappings,
    _maps: FlowMaps,
    _link: XdpLink,
}

/// While one of them is there its socket is, and the queue nobody else's.
#[derive(Debug)]
struct Mappings([Mapping; 4]);

impl Drop for Mappings {
    fn drop(&mut self) {
        for mapping in &self.0 {
            // A ring that stays costs memory, and the queue until the process ends.
            // SAFETY: the rings were the queue's own, and have been dropped before.
            let _ = unsafe { mapping.remove() };
        }
    }
}

impl Queue {
    /// Attaches the program, and opens the queue's rings.
    ///
    /// # Errors
    /// What the system refused.
    pub(crate) fn open(
        link_index: u32,
        attach: AttachMode,
        load: impl FnOnce(&FlowMaps) -> Result<Program, BpfError>,
    ) -> io::Result<Self> {
        let pool = FramePool::new(FRAMES, 2048, ThreadMode::Single)?;
        let maps = FlowMaps::create(1)?;
        let program = load(&maps)?;
        let link = XdpLink::attach(&program, link_index, attach)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let sizes = Sizes {
            rx: RING_ENTRIES,
            tx: RING_ENTRIES,
        };
        let binding = Binding {
            copy: attach == AttachMode::Generic,
            in_pieces: false,
        };
        let (umem, patience) = (Umem::Register, Patience::Long);
        let xsk = Xsk::open(link_index, 0, &pool, umem, sizes, binding, patience)?;
        maps.set_xsk(0, xsk.fd.as_raw_fd())?;
        let sending = SendingXsk::open(link_index, 0, &xsk, sizes, binding)?;
        let [fill, completion, received] = xsk.mappings;
        let mappings = Mappings([fill, completion, received, sending.mapping]);
        let kick = XdpKick::new(sending.fd);
        let rx = OwnRx::new([(xsk.rx, xsk.fill, xsk.fd)], &pool, PREFETCHED);
        let tx = OwnTx::new(sending.tx, xsk.completion);
        Ok(Self {
            pool,
            rx,
            tx,
            kick,
            _mappings: mappings,
            _maps: maps,
            _link: link,
        })
    }
}
