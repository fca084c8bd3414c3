//! The order of locks, checked while they are taken in builds with debug assertions.

/// Where a lock stands in the order: a thread takes one only while it holds none of the same rank
/// or a later one, or it may wait for another that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// A receiving ring, and the tables of an interface.
    Receiving,
    /// What a socket has received, or its connection.
    Socket,
    /// A sending ring.
    Sending,
    /// The pool of frames.
    Pool,
}

/// The rank of a lock, if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    #[cfg(debug_assertions)]
    rank: Option<Rank>,
}

#[cfg(not(debug_assertions))]
impl Place {
    pub(super) fn of(_rank: Rank) -> Self {
        Self {}
    }

    #[inline]
    pub(super) fn taken(self, _waits: bool) {}

    #[inline]
    pub(super) fn given(self) {}
}

#[cfg(debug_assertions)]
mod checked {
    use std::cell::Cell;

    use super::{Place, Rank};

    thread_local! {
        /// How many locks of each rank the thread holds.
        static HELD: Cell<[u8; 4]> = const { Cell::new([0; 4]) };
    }

    impl Place {
        pub(in super::super) fn of(rank: Rank) -> Self {
            Self { rank: Some(rank) }
        }

        /// The thread takes the lock. `waits`: it would wait for whoever has it.
        pub(in super::super) fn taken(self, waits: bool) {
            let Some(rank) = self.rank else {
                return;
            };
            let _ = HELD.try_with(|held| {
                let mut counts = held.get();
                // Several receiving rings are taken at once, in their order.
                let first = rank as usize + usize::from(rank == Rank::Receiving);
                let later = counts.iter().skip(first).any(|count| *count > 0);
                assert!(
                    !(waits && later),
                    "a lock of rank {rank:?} is taken behind a later one: {counts:?}"
                );
                counts[rank as usize] += 1;
                held.set(counts);
            });
        }

        /// The thread has given it back.
        pub(in super::super) fn given(self) {
            let Some(rank) = self.rank else {
                return;
            };
            let _ = HELD.try_with(|held| {
                let mut counts = held.get();
                counts[rank as usize] = counts[rank as usize].saturating_sub(1);
                held.set(counts);
            });
        }
    }
}
