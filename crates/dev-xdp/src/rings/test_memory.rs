//! Rings over ordinary memory, in place of the kernel's.

use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use dev_core::{FramePool, ThreadMode};

use crate::queue::{Consumer, Layout, Producer};
use rustix::net::xdp::{XdpDesc, XdpDescOptions};

/// A ring over ordinary memory, of which a test has the kernel's end.
pub(super) struct Memory<T> {
    pub(super) indexes: Box<[AtomicU32; 3]>,
    entries: Vec<T>,
}

impl<T: Copy> Memory<T> {
    pub(super) fn new(size: usize, empty: T) -> Self {
        Self {
            indexes: Box::default(),
            entries: vec![empty; size],
        }
    }

    pub(super) fn ends(&mut self) -> (Producer<T>, Consumer<T>) {
        let layout = Layout {
            producer: NonNull::from(&self.indexes[0]),
            consumer: NonNull::from(&self.indexes[1]),
            flags: NonNull::from(&self.indexes[2]),
            size: u32::try_from(self.entries.len()).unwrap(),
            entries: NonNull::new(self.entries.as_mut_ptr()).unwrap(),
        };
        // SAFETY: the memory outlives both ends in every test, and each side has one end.
        let producer = unsafe { Producer::new(layout) };
        // SAFETY: as above.
        let consumer = unsafe { Consumer::new(layout) };
        (producer, consumer)
    }
}

pub(super) const EMPTY: XdpDesc = XdpDesc {
    addr: 0,
    len: 0,
    options: XdpDescOptions::empty(),
};

pub(super) fn pool(frames: u32) -> FramePool {
    FramePool::new(frames, 2048, ThreadMode::SpinLock).unwrap()
}
