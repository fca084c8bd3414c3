//! What a process and its descendants say to each other about a socket, in memory that `fork(2)`
//! shares.

mod channel_end;
mod place;
mod socket;
mod wake_channel;

use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

pub(crate) use channel_end::{ChannelEnd, take_messages};
pub(crate) use place::Shared;
pub(crate) use socket::SharedSocket;
pub(crate) use wake_channel::WakeChannel;

/// Where the engine takes them from. They are never given back: the objects that they belong to
/// live in type-stable memory.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    unused: Mutex<&'static [SharedSocket]>,
    channel: Option<&'static WakeChannel>,
}

/// Bytes that are mapped at a time.
const CHUNK_BYTES: usize = 4096;

impl SharedMemory {
    pub(crate) fn new() -> Self {
        Self {
            unused: Mutex::default(),
            // It lives as long as what is taken from here.
            channel: WakeChannel::new().map(|channel| &*Box::leak(Box::new(channel))),
        }
    }

    /// By which descendants are called.
    pub(crate) fn channel(&self) -> Option<&'static WakeChannel> {
        self.channel
    }

    /// A place that was never used. `None`: no memory.
    pub(crate) fn take(&self) -> Option<Shared> {
        let mut unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.is_empty() {
            *unused = map()?;
        }
        let (first, rest) = unused.split_first()?;
        *unused = rest;
        Some(Shared::new(first, self.channel))
    }
}

fn map() -> Option<&'static [SharedSocket]> {
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), CHUNK_BYTES, access, flags, -1, 0) };
    let first =
        NonNull::new(address.cast::<SharedSocket>()).filter(|_| address != libc::MAP_FAILED)?;
    let places = NonNull::slice_from_raw_parts(first, CHUNK_BYTES / size_of::<SharedSocket>());
    // SAFETY: the mapping is page-aligned, zeroed, which is a value of atomic integers, of this
    // size, and never unmapped.
    Some(unsafe { places.as_ref() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn place() -> Shared {
        SharedMemory::new().take().unwrap()
    }

    #[test]
    fn a_wish_before_or_after_is_seen() {
        let place = place();
        assert!(place.claim(3) && place.is_claimed(3));
        place.request(3);
        assert!(place.is_requested(3) && !place.claim(3));
        place.release();
        assert!(!place.is_claimed(3));
    }

    #[test]
    fn a_socket_has_one_taker_or_several() {
        let place = place();
        assert!(place.begin_taking(1, 7, |_| true) && place.begin_taking(1, 7, |_| true));
        assert!(place.is_sole_taker(1, 7) && !place.is_sole_taker(1, 8));
        // That one has ended; the next one has done so in an orderly way.
        assert!(place.begin_taking(1, 8, |_| false));
        place.end_taking(1, 7);
        assert!(place.is_sole_taker(1, 8));
        place.end_taking(1, 8);
        assert!(place.begin_taking(1, 9, |_| true));
        assert!(!place.begin_taking(1, 10, |process| process == 9));
        assert!(!place.is_sole_taker(1, 9) && !place.begin_taking(1, 9, |_| true));
    }

    #[test]
    fn a_later_life_has_takers_of_its_own() {
        let place = place();
        place.mark_taken_by_several(3);
        assert!(place.begin_taking(5, 7, |_| true) && place.is_sole_taker(5, 7));
        // Who has the earlier one does not disturb it, and does not take alone.
        assert!(!place.begin_taking(3, 8, |_| true));
        place.mark_taken_by_several(3);
        place.end_taking(3, 7);
        assert!(place.is_sole_taker(5, 7));
    }

    #[test]
    fn an_adopted_socket_is_given_back_by_whoever_has_it() {
        let place = place();
        assert!(place.begin_taking(1, 7, |_| true) && place.adopt(1, 7));
        place.end_adoption(8);
        assert_eq!(place.adopter(), Some(7));
        place.mark_taken_by_several(1);
        assert!(!place.adopt(1, 7));
        place.end_adoption(7);
        assert_eq!(place.adopter(), None);
        assert!(!place.is_offered(1));
        place.offer(1);
        assert!(place.is_offered(1) && !place.is_offered(3));
    }

    #[test]
    fn several_take_together_until_one_takes_otherwise() {
        let place = place();
        assert!(
            place.begin_taking_together(1, |_| true) && place.begin_taking_together(1, |_| true)
        );
        assert!(place.is_taker(1, 7) && place.is_taker(1, 8) && !place.is_sole_taker(1, 7));
        assert!(place.begin_part(1) && !place.have_others_parts());
        assert!(place.begin_part(1) && place.have_others_parts() && place.end_part());
        place.end_taking(1, 7);
        assert!(place.is_taken_together(1));
        assert!(!place.begin_taking(1, 7, |_| true), "it would take alone");
        assert!(!place.is_taker(1, 8) && !place.begin_taking_together(1, |_| true));
        assert!(place.adopter().is_some() && !place.end_part());
        assert_eq!(place.adopter(), None);
        assert!(!place.end_part(), "nobody has one");
        // One that took it alone lives, or not.
        assert!(place.begin_taking(3, 7, |_| true));
        assert!(place.begin_taking_together(3, |_| false) && place.begin_taking(5, 7, |_| true));
        assert!(!place.begin_taking_together(5, |_| true));
    }

    #[test]
    fn a_wish_for_an_earlier_life_is_none_for_this_one() {
        let place = place();
        place.request(5);
        place.request(3);
        assert!(place.is_requested(5));
        assert!(place.claim(7) && !place.is_claimed(5));
    }

    #[test]
    fn a_wait_ends_with_the_release_or_with_its_limit() {
        let place = place();
        assert!(place.claim(1));
        place.wait(1, Duration::from_millis(1));
        assert!(place.is_claimed(1), "only the limit has passed");
        place.request(1);
        std::thread::scope(|scope| {
            scope.spawn(|| place.release());
            while place.is_claimed(1) {
                place.wait(1, Duration::from_secs(10));
            }
        });
        place.wait(1, Duration::from_secs(10));
    }

    #[test]
    fn places_are_given_out_once_over_several_chunks() {
        let memory = SharedMemory::new();
        let places: std::collections::HashSet<_> = (0..1500)
            .map(|_| std::ptr::from_ref(&*memory.take().unwrap()).addr())
            .collect();
        assert_eq!(places.len(), 1500);
    }
}
