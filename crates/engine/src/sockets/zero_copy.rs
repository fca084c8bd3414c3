//! Packets that a program gets as they are in the library's memory, and holds until it gives them
//! back (VMA's extra API).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use dev_core::{Lock, ThreadMode};
use stats::Gauge;

use crate::sockets::payload::Received;

/// Where a receive call leaves packets instead of copies.
#[derive(Debug)]
pub struct PacketSink {
    packets_max: usize,
    /// What the kernel has is not copied either: the call fails.
    pub(crate) is_forced: bool,
    /// Mostly there is one.
    first: Option<Received>,
    more: Vec<Received>,
}

impl PacketSink {
    /// For so many packets at most. `is_forced`: a call that would have to copy fails with `EIO`.
    pub fn new(packets_max: usize, is_forced: bool) -> Self {
        Self {
            packets_max,
            is_forced,
            first: None,
            more: Vec::new(),
        }
    }

    /// Whether one more has room.
    pub(crate) fn has_room(&self) -> bool {
        usize::from(self.first.is_some()) + self.more.len() < self.packets_max
    }

    #[inline]
    pub(crate) fn push(&mut self, packet: Received) {
        match &self.first {
            None => self.first = Some(packet),
            Some(_) => self.more.push(packet),
        }
    }

    pub(crate) fn into_packets(self) -> impl Iterator<Item = Received> {
        self.first.into_iter().chain(self.more)
    }

    /// Whether the call has left its data in the caller's buffers after all.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// Whose a packet is: the socket's object, and the life of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) socket: usize,
    pub(crate) generation: u32,
}

/// A packet that a program holds, as it sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldPacket {
    /// What it is given back by; never 0.
    pub id: usize,
    /// Where its octets are until then.
    pub data: *const u8,
    /// How many.
    pub len: usize,
}

/// All that programs hold. What they say of a packet is checked: the number of a place, and how
/// often that was used; or by which run of a function of theirs it was seen.
#[derive(Debug)]
pub(crate) struct HeldPackets {
    places: Lock<Places>,
    /// How many of those that are held are frames of the pool.
    frames: AtomicUsize,
}

#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    free: Vec<u32>,
    /// Those that a function has seen first, by their sockets and ids.
    seen: HashMap<(Owner, usize), Received>,
}

#[derive(Debug)]
struct Place {
    uses: u32,
    packet: Option<(Owner, Received)>,
}

impl HeldPackets {
    pub(crate) fn new(mode: ThreadMode) -> Self {
        Self {
            places: Lock::new(mode, Places::default()),
            frames: AtomicUsize::new(0),
        }
    }

    /// Whether so many frames are held: what comes next is to be copied first, so that those that
    /// are left serve others.
    #[inline]
    pub(crate) fn are_many(&self, frames_max: usize) -> bool {
        self.frames.load(Ordering::Relaxed) >= frames_max
    }

    /// Holds a packet, and counts it in the owner's gauge. Where `frames_max` frames are held
    /// already it is copied.
    pub(crate) fn hold(
        &self,
        owner: Owner,
        packet: Received,
        frames_max: usize,
        gauge: &Gauge,
    ) -> HeldPacket {
        let packet = self.lend(packet, frames_max);
        let (data, len) = (packet.as_ref().as_ptr(), packet.as_ref().len());
        let mut places = self.places.lock();
        gauge.add(1);
        let index = places.free.pop().unwrap_or_else(|| {
            places.all.push(Place {
                uses: 0,
                packet: None,
            });
            (places.all.len() - 1) as u32
        });
        let place = &mut places.all[index as usize];
        place.packet = Some((owner, packet));
        let id = (place.uses as usize) << INDEX_BITS | (index as usize + 1);
        HeldPacket { id, data, len }
    }

    /// Holds a packet that was [seen](seen_id) first.
    pub(crate) fn hold_seen(&self, owner: Owner, id: usize, packet: Received, gauge: &Gauge) {
        self.count(&packet, AtomicUsize::fetch_add);
        let mut places = self.places.lock();
        match places.seen.insert((owner, id), packet) {
            // Given up: billions have come since.
            Some(before) => self.count(&before, AtomicUsize::fetch_sub),
            None => gauge.add(1),
        }
    }

    /// Of a packet that somebody else keeps for the program: a copy where `frames_max` frames are
    /// held already.
    pub(crate) fn lend(&self, packet: Received, frames_max: usize) -> Received {
        let packet = match self.are_many(frames_max) {
            true => packet.out_of_pool(),
            false => packet,
        };
        self.count(&packet, AtomicUsize::fetch_add);
        packet
    }

    /// It is kept no more.
    pub(crate) fn came_back(&self, packet: &Received) {
        self.count(packet, AtomicUsize::fetch_sub);
    }

    /// Takes one back. `None`: it is none of this socket's, or was given back before.
    pub(crate) fn take_back(&self, owner: Owner, id: usize, gauge: &Gauge) -> Option<Received> {
        let mut places = self.places.lock();
        let packet = places.take_back(owner, id)?;
        gauge.subtract(1);
        drop(places);
        self.count(&packet, AtomicUsize::fetch_sub);
        Some(packet)
    }

    fn count(
        &self,
        packet: &Received,
        change: impl FnOnce(&AtomicUsize, usize, Ordering) -> usize,
    ) {
        if packet.has_frame() {
            change(&self.frames, 1, Ordering::Relaxed);
        }
    }
}

impl Places {
    fn take_back(&mut self, owner: Owner, id: usize) -> Option<Received> {
        if id & SEEN != 0 {
            return self.seen.remove(&(owner, id));
        }
        let index = (id & INDEX_MASK).checked_sub(1)?;
        let place = self.all.get_mut(index)?;
        let is_it = (place.uses as usize) == id >> INDEX_BITS
            && place.packet.as_ref().is_some_and(|(of, _)| *of == owner);
        if !is_it {
            return None;
        }
        let (_, packet) = place.packet.take()?;
        place.uses = place.uses.wrapping_add(1) & USES_MASK;
        self.free.push(index as u32);
        Some(packet)
    }
}

/// The id of a packet that a function sees in this run of it, for one socket.
#[inline]
pub(crate) fn seen_id(run: u32) -> usize {
    SEEN | run as usize
}

/// Marks an id of a packet that was seen first.
const SEEN: usize = 1 << 63;
const USES_MASK: u32 = u32::MAX >> 1;
/// Bits of an id that say the place.
const INDEX_BITS: u32 = 32;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner = Owner {
        socket: 64,
        generation: 3,
    };

    fn packet(text: &str) -> Received {
        Received::Copy {
            bytes: text.into(),
            start: 0,
        }
    }

    #[test]
    fn a_packet_is_given_back_once_and_by_its_socket() {
        let held = HeldPackets::new(ThreadMode::SpinLock);
        let gauge = Gauge::default();
        let first = held.hold(OWNER, packet("first"), 8, &gauge);
        let second = held.hold(OWNER, packet("second"), 8, &gauge);
        assert_ne!(first.id, second.id);
        assert_eq!(gauge.value(), 2);
        assert_eq!((first.len, second.len), (5, 6));
        let later = Owner {
            generation: 5,
            ..OWNER
        };
        assert!(held.take_back(later, first.id, &gauge).is_none());
        for id in [0, 3, usize::MAX, first.id + (1 << INDEX_BITS)] {
            assert!(held.take_back(OWNER, id, &gauge).is_none(), "{id}");
        }
        let back = held.take_back(OWNER, first.id, &gauge).unwrap();
        assert_eq!(back.as_ref(), b"first");
        assert!(held.take_back(OWNER, first.id, &gauge).is_none());
        // Its place is used again, under another number.
        let third = held.hold(OWNER, packet("third"), 8, &gauge);
        assert_ne!(third.id, first.id);
        assert!(held.take_back(OWNER, first.id, &gauge).is_none());
        assert!(held.take_back(OWNER, third.id, &gauge).is_some());
        assert!(held.take_back(OWNER, second.id, &gauge).is_some());
        assert_eq!(gauge.value(), 0);
    }

    #[test]
    fn a_packet_that_was_seen_is_known_by_the_run() {
        let held = HeldPackets::new(ThreadMode::SpinLock);
        let gauge = Gauge::default();
        let id = seen_id(7);
        assert!(held.take_back(OWNER, id, &gauge).is_none());
        held.hold_seen(OWNER, id, packet("seen"), &gauge);
        assert_eq!(gauge.value(), 1);
        let other = Owner {
            socket: 128,
            ..OWNER
        };
        assert!(held.take_back(other, id, &gauge).is_none());
        assert!(held.take_back(OWNER, 7, &gauge).is_none());
        assert_eq!(held.take_back(OWNER, id, &gauge).unwrap().as_ref(), b"seen");
        assert!(held.take_back(OWNER, id, &gauge).is_none());
    }
}
