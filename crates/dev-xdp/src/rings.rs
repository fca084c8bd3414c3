//! The data path of an open interface: one receiving side over all its queues, one sending side, one kick.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use ring::{Frame, FramePool, Kick, KickOutcome, RxRing, TxRing};

use crate::queue::{Consumer, Producer};
use crate::xsk::Descriptor;

/// Empty frames are handed to the kernel in batches of this size, or whenever a poll finds nothing to do.
const REFILL_BATCH: i32 = 64;
/// Frames that the kernel has at first.
const LEVEL_MIN: u32 = 512;
/// Frames after which a level that was never needed is lowered.
const CALM_FRAMES: u32 = 1 << 17;

/// One queue's fill and RX rings.
#[derive(Debug)]
struct RxQueue {
    rx: Consumer<Descriptor>,
    fill: Producer<u64>,
    /// Frames that the kernel is to have, between [`LEVEL_MIN`] and the size of the ring. The kernel uses them in turn, so
    /// their number is what a ping-pong occupies of the cache: with 2048 it took a third longer than with 256. Bursts
    /// raise the level, calm lowers it.
    level: u32,
    /// Frames that the kernel lacks to have its level; negative after the level was lowered.
    missing: i32,
    /// Most frames that waited at once, and the frames received, since the level was last looked at.
    waiting_max: u32,
    received: u32,
    /// Keeps the queue's socket open.
    _fd: Arc<OwnedFd>,
}

/// Receiving side of an interface.
#[derive(Debug)]
pub struct XdpRx {
    queues: Vec<RxQueue>,
    /// The queue that the next poll begins with, so that a busy one does not keep the others waiting.
    first: usize,
}

impl XdpRx {
    pub(crate) fn new(
        queues: impl IntoIterator<Item = (Consumer<Descriptor>, Producer<u64>, Arc<OwnedFd>)>,
        pool: &FramePool,
    ) -> Self {
        let queue = |(rx, fill, _fd): (_, Producer<u64>, _)| {
            let level = LEVEL_MIN.min(fill.size());
            RxQueue {
                rx,
                level,
                missing: level as i32,
                fill,
                waiting_max: 0,
                received: 0,
                _fd,
            }
        };
        let mut side = Self {
            queues: queues.into_iter().map(queue).collect(),
            first: 0,
        };
        side.queues.iter_mut().for_each(|queue| queue.refill(pool));
        side
    }
}

impl RxRing for XdpRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, mut sink: impl FnMut(Frame)) -> usize {
        let mut total = 0;
        let (later, earlier) = self.queues.split_at_mut(self.first);
        if !later.is_empty() || earlier.len() > 1 {
            self.first = if earlier.len() > 1 { self.first + 1 } else { 0 };
        }
        for queue in earlier.iter_mut().chain(later) {
            let mut count = 0;
            while total + count < budget
                && let Some(descriptor) = queue.rx.pop()
            {
                count += 1;
                // A descriptor outside the pool would be a kernel bug; its frame is lost, nothing else.
                if let Some(frame) = pool.reclaim(descriptor.address, descriptor.len) {
                    sink(frame);
                }
            }
            if count > 0 {
                queue.waiting_max = queue.waiting_max.max(count as u32 + queue.rx.waiting());
                queue.rx.release();
                queue.missing += count as i32;
                queue.received += count as u32;
            }
            if queue.missing >= REFILL_BATCH || (count == 0 && queue.missing > 0) {
                queue.refill(pool);
            }
            total += count;
        }
        total
    }
}

impl RxQueue {
    #[inline(never)]
    fn refill(&mut self, pool: &FramePool) {
        self.adapt();
        let Self { fill, missing, .. } = self;
        let wanted = usize::try_from(*missing).unwrap_or(0);
        let taken = pool.take_many(wanted, |frame| {
            let pushed = fill.push(pool.release_to_device(frame));
            debug_assert!(
                pushed,
                "the fill ring has room for as many frames as are missing"
            );
        });
        *missing -= taken as i32;
        fill.publish();
    }

    /// Raises the level when half of it waited at once, lowers it when an eighth was enough for long.
    fn adapt(&mut self) {
        let level = if self.waiting_max > self.level / 2 {
            (self.level * 2).min(self.fill.size())
        } else if self.received < CALM_FRAMES {
            return;
        } else if self.waiting_max < self.level / 8 {
            (self.level / 2).max(LEVEL_MIN.min(self.fill.size()))
        } else {
            self.level
        };
        self.missing += level as i32 - self.level as i32;
        (self.level, self.waiting_max, self.received) = (level, 0, 0);
    }
}

/// Sending side of an interface: the TX and completion rings of its first queue.
#[derive(Debug)]
pub struct XdpTx {
    tx: Producer<Descriptor>,
    completion: Consumer<u64>,
    /// A frame that was taken and not used.
    spare: Option<Frame>,
    /// Frames that the kernel has and did not complete yet.
    in_flight: u32,
}

impl XdpTx {
    pub(crate) fn new(tx: Producer<Descriptor>, completion: Consumer<u64>) -> Self {
        Self {
            tx,
            completion,
            spare: None,
            in_flight: 0,
        }
    }
}

impl TxRing for XdpTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        if let Some(frame) = self.spare.take() {
            return Some(frame);
        }
        // The frame sent last is the first to be used again: its lines are in the cache.
        if let Some(address) = self.completion.pop() {
            self.completion.release();
            self.in_flight -= 1;
            if let Some(frame) = pool.reclaim(address, 0) {
                return Some(frame);
            }
        }
        if self.in_flight >= self.tx.size() {
            return None;
        }
        pool.take()
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let len = frame.len() as u32;
        let descriptor = Descriptor {
            address: pool.release_to_device(frame),
            len,
            options: 0,
        };
        // At most `size` frames are out (see `frame`), so there is room.
        let pushed = self.tx.push(descriptor);
        debug_assert!(pushed);
        self.in_flight += u32::from(pushed);
        self.tx.publish();
    }

    fn cancel(&mut self, frame: Frame) {
        debug_assert!(self.spare.is_none());
        self.spare = Some(frame);
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        self.tx.needs_wakeup()
    }
}

/// The `sendto(2)` that makes the kernel take frames from the TX ring.
#[derive(Debug)]
pub struct XdpKick {
    fd: Arc<OwnedFd>,
}

impl XdpKick {
    pub(crate) fn new(fd: Arc<OwnedFd>) -> Self {
        Self { fd }
    }
}

impl Kick for XdpKick {
    #[inline]
    fn kick(&self) -> KickOutcome {
        let none = std::ptr::null::<libc::c_void>();
        let fd = self.fd.as_raw_fd();
        // SAFETY: an empty message from a null buffer; the kernel reads nothing.
        let result =
            unsafe { libc::syscall(libc::SYS_sendto, fd, none, 0, libc::MSG_DONTWAIT, none, 0) };
        if result >= 0 {
            KickOutcome::Done
        } else {
            kick_failed()
        }
    }
}

#[cold]
fn kick_failed() -> KickOutcome {
    match io::Error::last_os_error().raw_os_error() {
        // In copy mode the kernel takes 32 frames at a time and answers EAGAIN while there are more.
        Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS | libc::EINTR) => KickOutcome::Again,
        Some(libc::ENETDOWN) => KickOutcome::Down,
        _ => KickOutcome::Lost,
    }
}
