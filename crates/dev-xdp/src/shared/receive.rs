//! The receiving side of a process that shares the interface's memory with others: what has come is
//! copied into frames of its own pool.

use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{Frame, FramePool, RxRing};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use super::area::Area;
use super::client::Client;
use super::refill::Refill;
use crate::queue::{Consumer, ConsumerWatch};
use crate::rings::turns::take_in_turns;

/// Frames are given back when there are so many, or whenever a poll finds nothing to do.
const GIVE_BACK: usize = 64;
/// Frames of the pool at hand, of which a packet needs at most as many as 64 KiB take pieces.
const STASH: usize = 96;
const PIECES_MAX: usize = 40;

/// One queue's RX ring.
#[derive(Debug)]
struct Queue {
    rx: Consumer<XdpDesc>,
    refill: Refill,
    /// Empty frames of the pool.
    stash: Vec<Frame>,
    /// Keeps the queue's socket open.
    fd: Arc<OwnDescriptor>,
}

/// A receiving side, over some queues of an interface.
#[derive(Debug)]
pub struct SharedRx {
    queues: Vec<Queue>,
    /// The queue that the next poll begins with.
    first: usize,
    area: Arc<Area>,
    client: Client,
}

impl SharedRx {
    pub(super) fn new(
        queues: impl IntoIterator<Item = (Consumer<XdpDesc>, Refill, Arc<OwnDescriptor>)>,
        area: Arc<Area>,
        client: Client,
    ) -> Self {
        let queue = |(rx, refill, fd)| Queue {
            rx,
            refill,
            stash: Vec::with_capacity(STASH),
            fd,
        };
        Self {
            queues: queues.into_iter().map(queue).collect(),
            first: 0,
            area,
            client,
        }
    }

    pub(crate) fn watches(&self) -> impl Iterator<Item = ConsumerWatch> {
        self.queues.iter().map(|queue| queue.rx.watch())
    }

    pub(crate) fn wait_fds(&self) -> Vec<Arc<OwnDescriptor>> {
        let fds = self.queues.iter().map(|queue| &queue.fd);
        fds.map(Arc::clone).collect()
    }
}

impl RxRing for SharedRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let (queues, first) = (&mut self.queues, &mut self.first);
        take_in_turns(queues, first, budget, |queue, budget| {
            queue.take(&self.area, self.client, pool, budget, &mut sink)
        })
    }

    fn drain(&mut self, pool: &FramePool, mut sink: impl FnMut(Frame)) -> usize {
        let mut total = 0;
        for queue in &mut self.queues {
            let present = queue.rx.present() as usize;
            total += queue.take(&self.area, self.client, pool, present, &mut sink);
        }
        total
    }

    fn expect_bursts(&mut self, expected: bool) {
        let queues = self.queues.iter_mut();
        queues.for_each(|queue| queue.refill.expect_bursts(expected));
    }
}

impl Queue {
    /// Takes up to `budget` frames, and the rest of a packet that has begun. Returns how many.
    #[inline]
    fn take(
        &mut self,
        area: &Area,
        client: Client,
        pool: &FramePool,
        budget: usize,
        sink: &mut impl FnMut(Frame),
    ) -> usize {
        let mut count = 0;
        let mut continues = false;
        while (count < budget || continues) && self.rx.peek().is_some() {
            // What there is no frame for waits in the ring, and what comes then is lost there.
            if !continues && !self.stash_frames(pool) {
                break;
            }
            let (Some(mut frame), Some(descriptor)) = (self.stash.pop(), self.rx.pop()) else {
                break;
            };
            count += 1;
            continues = descriptor.options.contains(XdpDescOptions::XDP_PKT_CONTD);
            self.copy(area, client, pool, &mut frame, &descriptor);
            if continues {
                frame.set_continues();
            }
            sink(frame);
        }
        if count > 0 {
            self.rx.release();
        }
        let owed = self.refill.owed();
        if owed >= GIVE_BACK || (count == 0 && owed > 0) {
            self.refill.give_back(area, client);
        }
        count
    }

    /// Has frames of the pool at hand. `false`: there are too few for a packet.
    #[inline]
    fn stash_frames(&mut self, pool: &FramePool) -> bool {
        if self.stash.len() >= PIECES_MAX {
            return true;
        }
        let stash = &mut self.stash;
        pool.take_many(STASH - stash.len(), |frame| stash.push(frame));
        self.stash.len() >= PIECES_MAX
    }

    /// Copies what a descriptor names, which is nothing if it is not of the area.
    #[inline]
    fn copy(
        &mut self,
        area: &Area,
        client: Client,
        pool: &FramePool,
        frame: &mut Frame,
        descriptor: &XdpDesc,
    ) {
        let shape = area.shape();
        let (address, len) = (descriptor.addr, descriptor.len as usize);
        let number = shape.rx_frame(address);
        // The kernel puts data behind its headroom.
        let is_behind_room =
            address % u64::from(shape.frame_bytes) >= u64::from(dev_core::IN_FRONT);
        match (number, area.bytes_at(address, len)) {
            (Some(number), Some(bytes)) if is_behind_room => {
                // SAFETY: as many bytes are mapped there, and so many before them.
                unsafe { pool.fill(frame, bytes, len) };
                self.refill.owe(area, client, number);
            }
            _ => pool.set_len(frame, 0),
        }
    }
}
