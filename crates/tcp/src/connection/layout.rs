//! Which memory of a connection a segment touches. With a million connections none of it is in a cache.
//!
//! Received data in order, its read and its acknowledgement touch one stretch in the middle of [`Connection`]: from the octet
//! numbers of [`Sender`] to the first of [`Timers`]. Before and behind it lie what only sending,
//! losses, the handshake and the end need. Sending touches nearly all, and two lists. Nothing else outside of the connection is touched: not the timer wheel
//! ([`Connection::poll_wake_up`]), and no list of a single unread payload
//! ([`ReceiveQueue`](crate::receive::queue::ReceiveQueue)).

use core::mem::offset_of;
use std::collections::VecDeque;

use super::Connection;
use crate::Payload;
use crate::send::Sender;
use crate::timers::Timers;

const CACHE_LINE: usize = 64;

/// Which way a segment's data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It has data, which is read and acknowledged.
    Receive,
    /// It acknowledges, and new data is written and sent.
    Send,
}

impl<P: Payload> Connection<P> {
    /// Where the stretch begins and ends, in octets.
    const START: usize = offset_of!(Self, sender) + Sender::RECEIVING;
    const END: usize = offset_of!(Self, timers) + Timers::RECEIVING;

    /// The cache lines that a segment touches, as addresses to prefetch.
    #[inline]
    pub fn lines(&self, direction: Direction) -> impl Iterator<Item = *const u8> + use<P> {
        let start = core::ptr::from_ref(self).cast::<u8>();
        let octets = match direction {
            Direction::Receive => Self::START..Self::END,
            Direction::Send => 0..size_of::<Self>(),
        };
        (octets.start / CACHE_LINE..octets.end.div_ceil(CACHE_LINE))
            .map(move |line| start.wrapping_add(line.saturating_mul(CACHE_LINE)))
    }

    /// The same of the memory that the connection refers to. Looks into the connection for its addresses.
    #[inline]
    pub fn lines_behind(&self, direction: Direction) -> impl Iterator<Item = *const u8> + use<P> {
        let lists = match direction {
            Direction::Receive => None,
            Direction::Send => Some([self.sender.queue.lines(), self.recovery.lines()]),
        };
        lists.into_iter().flatten().flatten()
    }
}

/// Where the first element is and where the next one goes.
#[inline]
pub(crate) fn ends<T>(list: &VecDeque<T>) -> [*const u8; 2] {
    let (first, second) = list.as_slices();
    let last = if second.is_empty() { first } else { second };
    [first.as_ptr().cast(), last.as_ptr_range().end.cast()]
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

    #[test]
    fn the_ends_of_a_list_are_found_across_its_end() {
        let mut list = VecDeque::with_capacity(4);
        list.extend([1_u32, 2, 3, 4]);
        list.pop_front();
        list.pop_front();
        list.push_back(5);
        let (first, second) = list.as_slices();
        assert_eq!((first, second), (&[3, 4][..], &[5][..]));
        let next = second.as_ptr().wrapping_add(1);
        assert_eq!(ends(&list), [first.as_ptr().cast(), next.cast()]);
        list.pop_back();
        assert_eq!(ends(&list)[1], list.as_slices().0.as_ptr_range().end.cast());
    }
}
