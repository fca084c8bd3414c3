//! A receive queue of either kind.

use dev_core::FramePool;

use crate::arrived::Arrived;
use crate::completions::BATCH;
use crate::pair::Pair;
use crate::{mlx5, provider};

/// Room in front of a packet: for what is noted of it, and for what the device aligns.
pub(crate) const FRONT_BYTES: u32 = 64;

#[derive(Debug)]
pub(crate) enum ReceiveQueue {
    Provider(provider::ReceiveQueue),
    Mlx5(mlx5::ReceiveQueue),
}

impl ReceiveQueue {
    pub(crate) fn new(pair: &Pair) -> Self {
        match &pair.memory {
            Some(memory) => Self::Mlx5(mlx5::ReceiveQueue::new(memory, pair.device.frames)),
            None => Self::Provider(provider::ReceiveQueue::new(pair)),
        }
    }

    /// Gives the device up to so many frames of the pool. Returns how many it has got.
    pub(crate) fn post(&mut self, pool: &FramePool, wanted: u32) -> u32 {
        let room = match self {
            Self::Provider(queue) => queue.room(),
            Self::Mlx5(queue) => queue.room(),
        };
        let len = u32::from(pool.frame_bytes()) - FRONT_BYTES;
        let count = pool.take_many(wanted.min(room) as usize, |frame| {
            let offset = pool.release_to_device(frame) + u64::from(FRONT_BYTES);
            match self {
                Self::Provider(queue) => queue.put(offset, len),
                Self::Mlx5(queue) => queue.put(offset, len),
            }
        });
        match self {
            Self::Provider(queue) => queue.ring(|offset| {
                if let Some(frame) = pool.reclaim(offset, 0) {
                    pool.give(frame);
                }
            }),
            Self::Mlx5(queue) => {
                queue.ring();
                count as u32
            }
        }
    }

    /// Takes what has come, [`BATCH`] at most. Returns how much.
    #[inline]
    pub(crate) fn take(&mut self, into: &mut [Arrived; BATCH]) -> usize {
        match self {
            Self::Provider(queue) => queue.take(into),
            Self::Mlx5(queue) => queue.take(into),
        }
    }

    /// The event that was asked for has come: asks for the next.
    pub(crate) fn ask_for_event(&mut self) {
        match self {
            Self::Provider(queue) => queue.ask_for_event(),
            Self::Mlx5(queue) => queue.ask_for_event(),
        }
    }
}
