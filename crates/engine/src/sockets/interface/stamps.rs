//! When packets arrived: the device notes it from the moment on that a socket asks for time stamps, so that no other packets pay for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dev_core::{Backend, Frame, RxRing, Steering};

use super::Interface;
use crate::sockets::stack::Stack;
use crate::sys;

/// Since when the device notes it.
#[derive(Debug)]
pub(super) struct Stamps {
    are_asked_for: AtomicBool,
    /// [`NEVER`] if it does not.
    since_nsec: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Default for Stamps {
    fn default() -> Self {
        Self {
            are_asked_for: AtomicBool::new(false),
            since_nsec: AtomicU64::new(NEVER),
        }
    }
}

impl<S: Stack> Interface<S> {
    /// Has the device note when packets arrive. Where it cannot, they have come when they are taken from the ring.
    pub(crate) fn stamp_arrivals(&self) {
        let stamps = &self.stamps;
        if stamps.are_asked_for.load(Ordering::Relaxed)
            || stamps.are_asked_for.swap(true, Ordering::Relaxed)
        {
            return;
        }
        match self.steering.stamp_arrivals() {
            Ok(()) => stamps.since_nsec.store(sys::now_nsec(), Ordering::Relaxed),
            Err(error) => log::debug!(
                "{}: times of arrival are not noted: {error}",
                self.spec.name
            ),
        }
    }

    /// For how long a frame has waited in the ring. `None`: that is not known. What is noted of a frame that came before may be of
    /// another packet.
    pub(crate) fn age_nsec(&self, frame: &Frame) -> Option<u64> {
        let since = self.stamps.since_nsec.load(Ordering::Relaxed);
        if since == NEVER {
            return None;
        }
        let arrived = <S::Backend as Backend>::Rx::arrived_nsec(self.pool, frame)?;
        let age = sys::now_nsec().checked_sub(arrived)?;
        (arrived >= since).then_some(age)
    }
}
