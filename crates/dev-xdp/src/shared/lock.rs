//! The lock of an area. Nobody waits for it: who does not get it tries again when it has more to
//! give back. So a process that is stopped while it has it costs the others empty frames, not time,
//! and one that dies with it is followed by the broker, who knows of its end.

use std::sync::atomic::Ordering;

use super::area::Area;
use super::client::Client;

/// The right to an area's stack of free frames, and to the fill and completion rings.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    area: &'a Area,
}

impl Area {
    /// `None`: another process has it.
    #[inline]
    pub(super) fn try_lock(&self, client: Client) -> Option<Locked<'_>> {
        self.replace(0, client)
    }

    /// Follows a process that has died with the lock. `None`: it has not.
    pub(super) fn take_from(&self, dead: Client, client: Client) -> Option<Locked<'_>> {
        self.replace(dead.word(), client)
    }

    fn replace(&self, holder: u32, client: Client) -> Option<Locked<'_>> {
        let word = client.word();
        self.lock()
            .compare_exchange(holder, word, Ordering::Acquire, Ordering::Relaxed)
            .ok()
            .map(|_| Locked { area: self })
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.area.lock().store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::area::Shape;

    #[test]
    fn one_has_it_and_only_who_has_died_is_followed() {
        let shape = Shape {
            frame_bytes: 2048,
            rx_frames: 1,
            tx_frames: 1,
        };
        let (_fd, area) = Area::create(shape).unwrap();
        let client = |place, generation| Client::new(place, generation).unwrap();
        let locked = area.try_lock(client(0, 1)).unwrap();
        assert!(area.try_lock(client(1, 1)).is_none());
        assert!(
            area.take_from(client(0, 2), Client::BROKER).is_none(),
            "another of that place"
        );
        let _dead = std::mem::ManuallyDrop::new(locked);
        drop(area.take_from(client(0, 1), Client::BROKER).unwrap());
        assert!(area.try_lock(client(1, 1)).is_some());
    }
}
