//! The sides of an interface, which the process has alone or with others.

use std::sync::Arc;

use descriptors::OwnDescriptor;
use dev_core::{Frame, FramePool, RxRing, RxWatch, TxRing};

use super::receive::OwnRx;
use super::send::OwnTx;
use crate::queue::ConsumerWatch;
use crate::shared::receive::SharedRx;
use crate::shared::send::SharedTx;

/// A receiving side, over some queues of an interface.
#[derive(Debug)]
pub enum XdpRx {
    /// The process has the interface alone.
    Own(OwnRx),
    /// With others.
    Shared(SharedRx),
}

impl XdpRx {
    pub(crate) fn watch(&self) -> XdpWatch {
        match self {
            Self::Own(rx) => XdpWatch::of(rx.watches()),
            Self::Shared(rx) => XdpWatch::of(rx.watches()),
        }
    }

    /// The descriptors of its queues.
    pub(crate) fn wait_fds(&self) -> Vec<Arc<OwnDescriptor>> {
        match self {
            Self::Own(rx) => rx.wait_fds(),
            Self::Shared(rx) => rx.wait_fds(),
        }
    }
}

impl RxRing for XdpRx {
    #[inline]
    fn poll(&mut self, pool: &FramePool, budget: usize, sink: impl FnMut(Frame)) -> usize {
        match self {
            Self::Own(rx) => rx.poll(pool, budget, sink),
            Self::Shared(rx) => rx.poll(pool, budget, sink),
        }
    }

    fn drain(&mut self, pool: &FramePool, sink: impl FnMut(Frame)) -> usize {
        match self {
            Self::Own(rx) => rx.drain(pool, sink),
            Self::Shared(rx) => rx.drain(pool, sink),
        }
    }

    fn expect_bursts(&mut self, expected: bool) {
        match self {
            Self::Own(rx) => rx.expect_bursts(expected),
            Self::Shared(rx) => rx.expect_bursts(expected),
        }
    }
}

/// The same from outside.
#[derive(Debug)]
pub struct XdpWatch {
    queues: Box<[ConsumerWatch]>,
}

impl XdpWatch {
    pub(super) fn of(queues: impl Iterator<Item = ConsumerWatch>) -> Self {
        Self {
            queues: queues.collect(),
        }
    }
}

impl RxWatch for XdpWatch {
    #[inline]
    fn waiting(&self) -> Option<u32> {
        let (mut waiting, mut place) = (0, 0u32);
        for queue in &self.queues {
            let (count, first) = queue.waiting();
            waiting |= count;
            place = place.wrapping_add(first);
        }
        (waiting > 0).then_some(place)
    }
}

/// A sending side: the rings of one queue.
#[derive(Debug)]
pub enum XdpTx {
    /// The process has the interface alone.
    Own(OwnTx),
    /// With others.
    Shared(SharedTx),
}

impl TxRing for XdpTx {
    #[inline]
    fn frame(&mut self, pool: &FramePool) -> Option<Frame> {
        match self {
            Self::Own(tx) => tx.frame(pool),
            Self::Shared(tx) => tx.frame(pool),
        }
    }

    #[inline]
    fn push(&mut self, pool: &FramePool, frame: Frame) {
        match self {
            Self::Own(tx) => tx.push(pool, frame),
            Self::Shared(tx) => tx.push(pool, frame),
        }
    }

    fn cancel(&mut self, frame: Frame) {
        match self {
            Self::Own(tx) => tx.cancel(frame),
            Self::Shared(tx) => tx.cancel(frame),
        }
    }

    #[inline]
    fn needs_kick(&self) -> bool {
        match self {
            Self::Own(tx) => tx.needs_kick(),
            Self::Shared(tx) => tx.needs_kick(),
        }
    }
}
