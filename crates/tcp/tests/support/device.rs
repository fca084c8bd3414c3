//! A device whose sending ring is full now and then.

use std::time::Duration;

use tcp::{Info, Instant};

use super::network::Rng;

/// What a driver asks before it asks a connection for a segment.
#[derive(Clone, Debug)]
pub(crate) struct Device {
    rng: Rng,
    /// How long it is full at most.
    longest: Duration,
    full_until: Option<Instant>,
    /// What [`Self::check_patience`] allows until there is room, or so many octets and more are
    /// acknowledged.
    most: Option<(u64, [u8; 3])>,
}

impl Device {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let longest = Duration::from_micros(rng.pick(&[50, 5_000, 300_000, 3_000_000]));
        Self {
            rng,
            longest,
            full_until: None,
            most: None,
        }
    }

    /// When there is room again, if there is none.
    pub(crate) fn has_room_at(&self) -> Option<Instant> {
        self.full_until
    }

    /// Whether there is room for a segment.
    pub(crate) fn takes_one(&mut self, now: Instant) -> bool {
        if self.full_until.is_some_and(|until| now < until) {
            return false;
        }
        // At least one is taken after each wait.
        let was_full = self.full_until.take().is_some();
        self.most = None;
        if !was_full && self.rng.chance(30_000) {
            let wait = self.rng.duration(self.longest) + Duration::from_nanos(1);
            self.full_until = Some(now + wait);
        }
        self.full_until.is_none()
    }

    /// What found no room counts as tried once, however long that lasts. To be called whenever
    /// there is none.
    pub(crate) fn check_patience(&mut self, info: &Info) {
        let counts = [info.retransmits, info.probes, info.backoff];
        // With each advance the next segment has its own first try.
        let most = match self.most {
            Some((acked, most)) if acked == info.octets_acked => most,
            _ => counts.map(|count| count + 1),
        };
        self.most = Some((info.octets_acked, most));
        let is_patient = counts.iter().zip(most).all(|(count, most)| *count <= most);
        assert!(
            is_patient,
            "{counts:?}, {most:?} at most while there is no room"
        );
    }
}
