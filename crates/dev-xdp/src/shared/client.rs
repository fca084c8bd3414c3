//! Which of an area's processes somebody is.

use crate::bpf::program::PROCESSES_MAX;

/// A client's place among those of an interface, and which of all that have had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    place: u8,
    generation: u16,
}

/// Processes that an interface can have at once: as many as there are octets for a port's owner,
/// and sockets in the map of queues.
pub(crate) const CLIENTS_MAX: u8 = PROCESSES_MAX;

/// Whoever serves the interface has this place.
const BROKER: u8 = CLIENTS_MAX;

impl Client {
    pub(crate) const BROKER: Self = Self {
        place: BROKER,
        generation: 0,
    };

    pub(crate) fn new(place: u8, generation: u16) -> Option<Self> {
        let client = Self { place, generation };
        (place < CLIENTS_MAX).then_some(client)
    }

    pub(crate) fn place(self) -> u8 {
        self.place
    }

    pub(crate) fn generation(self) -> u16 {
        self.generation
    }

    /// How frames name it. 0 is nobody.
    pub(super) fn octet(self) -> u8 {
        self.place + 1
    }

    /// How the lock names it. 0 is nobody.
    pub(super) fn word(self) -> u32 {
        u32::from(self.generation) << 8 | u32::from(self.octet())
    }
}
