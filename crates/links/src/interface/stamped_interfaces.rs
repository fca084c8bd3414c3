//! Sockets that ask when packets arrived.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use dev_core::{Backend, Frame, Noted, RxRing, Steering};

use crate::interface::Interface;
use crate::interface::stamps::{NEVER, Wanted, lock};
use crate::receiver::Receiver;

/// The interfaces by which a socket asks for it, and for what.
#[derive(Debug)]
pub struct StampedInterfaces<S: Receiver>(Mutex<Vec<(&'static Interface<S>, Noted)>>);

impl<S: Receiver> StampedInterfaces<S> {
    pub const fn none() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// From here on it is these; what they are is asked when no other thread changes it.
    pub fn become_those<I>(&self, wanted: impl FnOnce() -> (Noted, I))
    where
        I: IntoIterator<Item = &'static Interface<S>>,
    {
        let mut known = lock(&self.0);
        let (noted, interfaces) = wanted();
        let of_now = match noted {
            Noted::Nothing => Vec::new(),
            _ => interfaces.into_iter().map(|it| (it, noted)).collect(),
        };
        let before = std::mem::replace(&mut *known, of_now);
        // The new ones first: what stays is not switched off meanwhile.
        for (interface, noted) in &*known {
            interface.change_stamps(|wanted| wanted.add(*noted));
        }
        for (interface, noted) in &before {
            interface.change_stamps(|wanted| wanted.remove(*noted));
        }
    }

    /// It is none from here on.
    pub fn clear(&self) {
        self.become_those(|| (Noted::Nothing, None));
    }
}

impl<S: Receiver> Interface<S> {
    /// Others ask for times of arrival, or for other ones. Where the device cannot note them,
    /// packets have come when they are taken from the ring.
    fn change_stamps(&self, change: impl FnOnce(&mut Wanted)) {
        let mut wanted = lock(&self.stamps.wanted);
        change(&mut wanted);
        let most = match wanted.most() {
            Noted::DeviceTime if !self.stamps.clock.is_told() => Noted::Time,
            most => most,
        };
        if most == wanted.noted {
            return;
        }
        wanted.noted = most;
        let (name, since) = (&self.spec.name, &self.stamps.since_nsec);
        if most == Noted::Nothing {
            since.store(NEVER, Ordering::Relaxed);
            if let Err(error) = self.steering.stamp_arrivals(most) {
                log::debug!("{name}: times of arrival are still noted: {error}");
            }
            return;
        }
        match self.note_arrivals(most) {
            Ok(()) => since.store(sys::now_nsec(), Ordering::Relaxed),
            Err(error) => log::debug!("{name}: times of arrival are not noted: {error}"),
        }
        if most == Noted::DeviceTime {
            self.compare_clocks();
        }
    }

    fn note_arrivals(&self, noted: Noted) -> io::Result<()> {
        self.steering.stamp_arrivals(noted).or_else(|error| {
            if noted != Noted::DeviceTime {
                return Err(error);
            }
            let name = &self.spec.name;
            log::debug!("{name}: times by the device's clock are not noted: {error}");
            self.steering.stamp_arrivals(Noted::Time)
        })
    }

    /// Compares the device's clock with the system's, if a socket is told of it. Now and then.
    pub(super) fn follow_device_clock(&self) {
        if lock(&self.stamps.wanted).noted == Noted::DeviceTime {
            self.compare_clocks();
        }
    }

    fn compare_clocks(&self) {
        self.stamps.clock.follow(|| {
            let sample = self.steering.clock_sample();
            let name = &self.spec.name;
            sample
                .inspect_err(|error| log::debug!("{name}: its clock is not compared: {error}"))
                .ok()
        });
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

    /// When the device has received a frame, by its clock, as `VMA_HW_TS_CONVERSION` says.
    pub fn device_nsec(&self, frame: &Frame) -> Option<u64> {
        self.age_nsec(frame)?;
        let device = <S::Backend as Backend>::Rx::device_nsec(self.pool, frame)?;
        self.stamps.clock.told(device)
    }
}
