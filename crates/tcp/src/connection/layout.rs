//! Which memory of a connection a segment touches. With a million connections none of it is in a cache.
//!
//! Received data in order, its read and its acknowledgement touch one stretch in the middle of [`Connection`]: from the octet
//! numbers of [`Sender`] to the first of [`Timers`]. Before and behind it lie what only sending,
//! losses, the handshake and the end need. Nothing outside of the connection is touched: not the timer wheel
//! ([`Connection::poll_wake_up`]), and no list of a single unread payload
//! ([`ReceiveQueue`](crate::receive::queue::ReceiveQueue)).

use core::mem::offset_of;

use super::Connection;
use crate::Payload;
use crate::send::Sender;
use crate::timers::Timers;

const CACHE_LINE: usize = 64;

impl<P: Payload> Connection<P> {
    /// Where the stretch begins and ends, in octets.
    const START: usize = offset_of!(Self, sender) + Sender::RECEIVING;
    const END: usize = offset_of!(Self, timers) + Timers::RECEIVING;

    /// The cache lines that received data in order, its read and its acknowledgement touch, as addresses to prefetch.
    #[inline]
    pub fn lines(&self) -> impl Iterator<Item = *const u8> + use<P> {
        let start = core::ptr::from_ref(self).cast::<u8>();
        (Self::START / CACHE_LINE..Self::END.div_ceil(CACHE_LINE))
            .map(move |line| start.wrapping_add(line.saturating_mul(CACHE_LINE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Counters, Liveness, Pending, TimestampState};
    use crate::receive::Receiver;

    /// A payload as large as a pointer and a range.
    struct Handle {
        _memory: [u64; 2],
    }

    impl AsRef<[u8]> for Handle {
        fn as_ref(&self) -> &[u8] {
            &[]
        }
    }

    impl Payload for Handle {
        fn trim_front(&mut self, _count: usize) {}

        fn truncate(&mut self, _len: usize) {}

        fn footprint(&self) -> usize {
            0
        }

        fn try_append(&mut self, _octets: &[u8]) -> bool {
            false
        }
    }

    type Small = Connection<Handle>;

    /// What [`Connection::lines`] asks for is all that the fast path uses, and few lines.
    #[test]
    fn what_received_data_touches_lies_together() {
        assert_eq!(align_of::<Small>(), CACHE_LINE);
        let stretch = Small::START..Small::END;
        let inside = |name: &str, offset: usize, size: usize| {
            let is_inside = stretch.contains(&offset) && offset + size <= stretch.end;
            assert!(is_inside, "{name} at {offset} is not in {stretch:?}");
        };
        inside("config", offset_of!(Small, config), 8);
        inside(
            "timestamps",
            offset_of!(Small, timestamps),
            size_of::<TimestampState>(),
        );
        inside(
            "liveness",
            offset_of!(Small, liveness),
            size_of::<Liveness>(),
        );
        inside(
            "counters",
            offset_of!(Small, counters),
            size_of::<Counters>(),
        );
        inside("pending", offset_of!(Small, pending), size_of::<Pending>());
        inside("state", offset_of!(Small, state), 1);
        inside("ecn", offset_of!(Small, ecn), 4);
        inside("events", offset_of!(Small, events), 2);
        inside("error", offset_of!(Small, error), 1);
        inside("is_orphan", offset_of!(Small, is_orphan), 1);
        inside("is_read_shut", offset_of!(Small, is_read_shut), 1);
        inside(
            "receiver",
            offset_of!(Small, receiver),
            size_of::<Receiver<Handle>>(),
        );
        assert!(stretch.len() <= 7 * CACHE_LINE, "{stretch:?}");
        // The stretch begins with a line.
        assert_eq!(stretch.start % CACHE_LINE, 0, "{stretch:?}");
    }
}
