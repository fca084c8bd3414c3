//! Which memory of a connection a segment touches. With a million connections none of it is in a
//! cache.
//!
//! Received data in order, its read and its acknowledgement touch one stretch of [`Connection`],
//! four lines: from the octet numbers of [`Sender`] to the end. Before it lies what is to be sent;
//! what sending, losses, the handshake and the end need is behind a pointer, in [`Cold`], lest the
//! stretches of a million connections be on more pages than need be. Nothing else outside of the
//! connection is touched: not the timer wheel ([`Connection::poll_wake_up`]), and no list of a
//! single unread payload ([`ReceiveQueue`](crate::receive::queue::ReceiveQueue)). Sending touches
//! nearly all, and two lists.

use core::mem::offset_of;

use super::{Cold, Connection};
use crate::Payload;
use crate::cache_lines::{CACHE_LINE, NO_LINES, lines_of};
use crate::outgoing::Outgoing;
use crate::send::Sender;

/// Which way a segment's data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It has data, which is read and acknowledged.
    Receive,
    /// It acknowledges, and new data is written and sent.
    Send,
}

impl<P: Payload> Connection<P> {
    /// Where the stretch begins, in octets.
    const START: usize = offset_of!(Self, sender) + Sender::RECEIVING;

    /// The cache lines that a segment touches, as addresses to prefetch: at depth 0 the
    /// connection's, at depth 1 of what it refers to, at depth 2 of what that refers to. The
    /// addresses of a depth are read from the lines of the depth before, which should have come by
    /// then.
    #[inline]
    pub fn lines(
        &self,
        direction: Direction,
        depth: usize,
    ) -> impl Iterator<Item = *const u8> + use<P> {
        let is_sending = direction == Direction::Send;
        let (first, lists) = match (depth, is_sending) {
            (0, false) => (lines_of(self, Self::START..size_of::<Self>()), None),
            (0, true) => (lines_of(self, 0..size_of::<Self>()), None),
            (1, true) => {
                let cold = lines_of(&*self.cold, 0..size_of::<Cold>());
                (cold, Some(self.sender.queue.lines()))
            }
            (2, true) => {
                let outgoing = self.cold.outgoing.as_deref();
                let outgoing = outgoing.map_or(NO_LINES, |outgoing| {
                    lines_of(outgoing, 0..size_of::<Outgoing>())
                });
                (outgoing, Some(self.cold.recovery.lines()))
            }
            _ => (NO_LINES, None),
        };
        let (start, count) = first;
        let first = (0..count).map(move |line| start.wrapping_add(line.saturating_mul(CACHE_LINE)));
        first.chain(lists.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A payload as large as a pointer and a range.
    struct Handle {
        _memory: Box<[u8]>,
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

    /// What [`Connection::lines`] asks for is all that the fast path uses, and few lines: the last
    /// fields of the sender, and all behind it.
    #[test]
    fn what_received_data_touches_lies_together() {
        assert_eq!(align_of::<Small>(), CACHE_LINE);
        assert_eq!(Small::START, CACHE_LINE);
        assert_eq!(size_of::<Small>(), 5 * CACHE_LINE);
        assert!(offset_of!(Small, sender) < offset_of!(Small, config));
        assert!(offset_of!(Sender, snd_una) > Sender::RECEIVING);
    }
}
