//! The sending side of a process that shares the interface's memory with others: a packet is copied
//! into one of the frames that are this process's to send by.
//!
//! The kernel reports sent frames to all processes of a queue in one completion ring. Who looks
//! there takes its own, and leaves word of the others in their state.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dev_core::{Frame, FramePool, TxRing};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

use super::area::Area;
use super::client::Client;
use crate::queue::{Consumer, ConsumerWatch, Producer};

/// The states of a frame: with its process, with the kernel, and back, of which its process has not
/// heard.
pub(super) const WITH_OWNER: u8 = 0;
pub(super) const IN_FLIGHT: u8 = 1;
const COMPLETED: u8 = 2;

/// Completions are looked at when there should be so many: those sent last are used first, so few
/// are in turn.
const RECLAIM: usize = 8;
/// Attempts at the lock, which is held for some hundred nanoseconds, when no frame is left.
const ATTEMPTS: usize = 64;

/// The frames that a process sends by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

impl Share {
    pub(super) fn numbers(self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// Sending side of an interface: TX and completion ring of one queue.
#[derive(Debug)]
pub struct SharedTx {
    tx: Producer<XdpDesc>,
    completion: Consumer<u64>,
    completed: ConsumerWatch,
    area: Arc<Area>,
    client: Client,
    share: Share,
    /// Numbers of frames to send by; the one that was sent last is on top.
    free: Vec<u32>,
    /// A frame of the pool that was used last: its lines are in the cache.
    spare: Option<Frame>,
}

impl SharedTx {
    pub(super) fn new(
        tx: Producer<XdpDesc>,
        completion: Consumer<u64>,
        area: Arc<Area>,
        client: Client,
        share: Share,
    ) -> Self {
        Self {
            completed: completion.watch(),
            tx,
            completion,
            area,
            client,
            share,
            free: share.numbers().rev().collect(),
            spare: None,
        }
    }

    fn has_all_but(&self, few: usize) -> bool {
        self.free.len() + few > self.share.count as usize
    }

    /// Looks for frames that were sent.
    #[inline(never)]
    fn reclaim(&mut self) {
        let attempts = if self.free.is_empty() { ATTEMPTS } else { 1 };
        for _ in 0..attempts {
            if let Some(_locked) = self.area.try_lock(self.client) {
                let free = &mut self.free;
                take_completed(&self.area, &mut self.completion, self.share, |number| {
                    free.push(number);
                });
                if free.len() < self.share.count as usize / 4 {
                    take_word_of_others(&self.area, self.share, free);
                }
                break;
            }
            std::hint::spin_loop();
        }
    }

    fn keep(&mut self, pool: &FramePool, frame: Frame) {
        if let Some(other) = self.spare.replace(frame) {
            pool.give(other);
        }
    }
}

/// Under the lock: takes in which frames were sent. Those of one's own `share` go to `own`.
pub(super) fn take_completed(
    area: &Area,
    completion: &mut Consumer<u64>,
    share: Share,
    mut own: impl FnMut(u32),
) {
    completion.take_turn();
    while let Some(address) = completion.pop() {
        let Some(number) = area.shape().tx_frame(address) else {
            continue;
        };
        let state = area.state(number);
        // One who died here has left entries that it had been through.
        if state.load(Ordering::Relaxed) != IN_FLIGHT {
            continue;
        }
        if share.numbers().contains(&number) {
            state.store(WITH_OWNER, Ordering::Relaxed);
            own(number);
        } else {
            state.store(COMPLETED, Ordering::Release);
        }
    }
    completion.release();
}

/// Under the lock: frames of one's own that others have seen in the completion ring.
fn take_word_of_others(area: &Area, share: Share, free: &mut Vec<u32>) {
    for number in share.numbers() {
        let state = area.state(number);
        if state.load(Ordering::Relaxed) == COMPLETED {
            state.store(WITH_OWNER, Ordering::Relaxed);
            free.push(number);
        }
    }
}

impl TxRing for SharedTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        if self.tx.room(1) == 0 {
            return None;
        }
        let is_due = !self.has_all_but(RECLAIM) && self.completed.waiting().0 >= RECLAIM as u32;
        if is_due || self.free.is_empty() {
            self.reclaim();
            if self.free.is_empty() {
                return None;
            }
        }
        self.spare.take().or_else(|| pool.take())
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        let data = pool.data(&frame);
        let place = self.free.last().map(|number| {
            let address = self.area.shape().tx_address(*number);
            (*number, address, self.area.bytes_at(address, data.len()))
        });
        if let Some((number, addr, Some(bytes))) = place
            && self.tx.room(1) > 0
        {
            self.free.pop();
            // SAFETY: as many bytes are mapped there; this process alone writes to its frames.
            unsafe { bytes.copy_from_nonoverlapping(data_of(data), data.len()) };
            self.area.state(number).store(IN_FLIGHT, Ordering::Release);
            self.tx.push(XdpDesc {
                addr,
                len: data.len() as u32,
                options: XdpDescOptions::empty(),
            });
            self.tx.publish();
        }
        self.keep(pool, frame);
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

fn data_of(data: &[u8]) -> std::ptr::NonNull<u8> {
    std::ptr::NonNull::from(data).cast()
}
