//! Packets that a program gets as they are in the library's memory, and holds until it gives them
//! back (VMA's extra API).

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sockets::payload::Received;

/// Where a receive call leaves packets instead of copies.
#[derive(Debug)]
pub struct PacketSink {
    packets_max: usize,
    /// What the kernel has is not copied either: the call fails.
    pub(crate) is_forced: bool,
    pub(crate) packets: Vec<Received>,
}

impl PacketSink {
    /// For so many packets at most. `is_forced`: a call that would have to copy fails with `EIO`.
    pub fn new(packets_max: usize, is_forced: bool) -> Self {
        Self {
            packets_max,
            is_forced,
            packets: Vec::new(),
        }
    }

    /// Whether one more has room.
    pub(crate) fn has_room(&self) -> bool {
        self.packets.len() < self.packets_max
    }

    /// Whether the call has left its data in the caller's buffers after all.
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// Whose a packet is: the socket's object, and the life of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
/// often that was used.
#[derive(Debug, Default)]
pub(crate) struct HeldPackets {
    places: Mutex<Places>,
}

#[derive(Debug, Default)]
struct Places {
    all: Vec<Place>,
    free: Vec<u32>,
    /// How many of those that are held are frames of the pool.
    frames: usize,
}

#[derive(Debug)]
struct Place {
    uses: u32,
    packet: Option<(Owner, Received)>,
}

impl HeldPackets {
    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds a packet. Where `frames_max` frames are held already it is copied, so that those that
    /// are left serve others.
    pub(crate) fn hold(&self, owner: Owner, packet: Received, frames_max: usize) -> HeldPacket {
        let mut places = self.places();
        let packet = match places.frames < frames_max {
            true => packet,
            false => packet.out_of_pool(),
        };
        places.frames += usize::from(packet.has_frame());
        let (data, len) = (packet.as_ref().as_ptr(), packet.as_ref().len());
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

    /// Takes one back. `None`: it is none of this socket's, or was given back before.
    pub(crate) fn take_back(&self, owner: Owner, id: usize) -> Option<Received> {
        let index = (id & INDEX_MASK).checked_sub(1)?;
        let mut places = self.places();
        let place = places.all.get_mut(index)?;
        let is_it = (place.uses as usize) == id >> INDEX_BITS
            && place.packet.as_ref().is_some_and(|(of, _)| *of == owner);
        if !is_it {
            return None;
        }
        let (_, packet) = place.packet.take()?;
        place.uses = place.uses.wrapping_add(1);
        places.free.push(index as u32);
        places.frames -= usize::from(packet.has_frame());
        Some(packet)
    }
}

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
        let held = HeldPackets::default();
        let first = held.hold(OWNER, packet("first"), 8);
        let second = held.hold(OWNER, packet("second"), 8);
        assert_ne!(first.id, second.id);
        assert_eq!((first.len, second.len), (5, 6));
        let later = Owner {
            generation: 5,
            ..OWNER
        };
        assert!(held.take_back(later, first.id).is_none());
        for id in [0, 3, usize::MAX, first.id + (1 << INDEX_BITS)] {
            assert!(held.take_back(OWNER, id).is_none(), "{id}");
        }
        let back = held.take_back(OWNER, first.id).unwrap();
        assert_eq!(back.as_ref(), b"first");
        assert!(held.take_back(OWNER, first.id).is_none());
        // Its place is used again, under another number.
        let third = held.hold(OWNER, packet("third"), 8);
        assert_ne!(third.id, first.id);
        assert!(held.take_back(OWNER, first.id).is_none());
        assert!(held.take_back(OWNER, third.id).is_some());
        assert!(held.take_back(OWNER, second.id).is_some());
    }
}
