//! Sockets that ask when packets arrived.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use dev_core::{Backend, Frame, RxRing, Steering};

use crate::interface::Interface;
use crate::interface::stamps::{NEVER, lock};
use crate::receiver::Receiver;

/// The interfaces by which a socket asks for it.
#[derive(Debug)]
pub struct StampedInterfaces<S: Receiver>(Mutex<Vec<&'static Interface<S>>>);

impl<S: Receiver> StampedInterfaces<S> {
    pub const fn none() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// From here on it is these; what they are is asked when no other thread changes it.
    pub fn become_those<I>(&self, wanted: impl FnOnce() -> I)
    where
        I: IntoIterator<Item = &'static Interface<S>>,
    {
        let mut known = lock(&self.0);
        let before = std::mem::replace(&mut *known, wanted().into_iter().collect());
        // The new ones first: what stays is not switched off meanwhile.
        known.iter().for_each(|interface| interface.stamp_for_one());
        before
            .iter()
            .for_each(|interface| interface.stamp_for_one_less());
    }

    /// It is none from here on.
    pub fn clear(&self) {
        self.become_those(|| None);
    }
}

impl<S: Receiver> Interface<S> {
    /// Has the device note when packets arrive, for one more socket. Where it cannot, they have
    /// come when they are taken from the ring.
    fn stamp_for_one(&self) {
        let mut wanted_by = lock(&self.stamps.wanted_by);
        *wanted_by += 1;
        if *wanted_by == 1 {
            match self.steering.stamp_arrivals(true) {
                Ok(()) => self
                    .stamps
                    .since_nsec
                    .store(sys::now_nsec(), Ordering::Relaxed),
                Err(error) => log::debug!(
                    "{}: times of arrival are not noted: {error}",
                    self.spec.name
                ),
            }
        }
    }

    /// A socket does not ask for it any more.
    fn stamp_for_one_less(&self) {
        let mut wanted_by = lock(&self.stamps.wanted_by);
        *wanted_by = wanted_by.saturating_sub(1);
        if *wanted_by == 0 {
            self.stamps.since_nsec.store(NEVER, Ordering::Relaxed);
            if let Err(error) = self.steering.stamp_arrivals(false) {
                log::debug!(
                    "{}: times of arrival are still noted: {error}",
                    self.spec.name
                );
            }
        }
    }

    /// For how long a frame has waited in the ring. `None`: that is not known. What is noted of a
    /// frame that came before may be of another packet.
    pub fn age_nsec(&self, frame: &Frame) -> Option<u64> {
        let since = self.stamps.since_nsec.load(Ordering::Relaxed);
        if since == NEVER {
            return None;
        }
        let arrived = <S::Backend as Backend>::Rx::arrived_nsec(self.pool, frame)?;
        let age = sys::now_nsec().checked_sub(arrived)?;
        (arrived >= since).then_some(age)
    }
}
