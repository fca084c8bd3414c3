//! The three sets of a `select(2)`: which descriptors they ask for, and what is left in them.

use libc::{c_int, c_short, fd_set, pollfd};
use sys::Errno;

use crate::mux::ASKED;
use crate::sockets::user_memory::is_writable;

/// What makes a descriptor ready in each set (kernel `fs/select.c`).
const READY: [c_short; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
    libc::POLLPRI,
];

/// The program's sets for reading, for writing and for exceptions, each of which may be null.
/// Programs with more than `FD_SETSIZE` descriptors pass longer sets than the type says.
#[derive(Clone, Copy, Debug)]
pub struct FdSets {
    count: c_int,
    sets: [*mut fd_set; 3],
}

impl FdSets {
    /// Descriptors that need no memory of their own.
    pub const FEW: usize = 8;
    /// No descriptor.
    pub const NONE: pollfd = pollfd {
        fd: -1,
        events: 0,
        revents: 0,
    };

    /// The sets, as far as descriptors below `count` are concerned. `None`: they cannot be read and
    /// written, as `select(2)` does; the kernel refuses them.
    ///
    /// # Safety
    /// What the pointers lead to must be the program's own, for as long as this is used.
    #[inline]
    pub unsafe fn new(count: c_int, sets: [*mut fd_set; 3]) -> Option<Self> {
        let all = Self { count, sets };
        let len = all.word_count() * size_of::<u64>();
        let is_good = |set: &*mut fd_set| set.is_null() || is_writable(*set, len);
        all.sets.iter().all(is_good).then_some(all)
    }

    /// Whether one of the descriptors is what is looked for.
    #[inline]
    pub fn any(&self, is_it: impl Fn(c_int) -> bool) -> bool {
        self.any_from(0, is_it)
    }

    /// The same where nothing below `lowest` is, if a word's width away from it.
    #[inline]
    pub fn any_from(&self, lowest: c_int, is_it: impl Fn(c_int) -> bool) -> bool {
        let first = lowest.unsigned_abs() as usize / 64;
        (first..self.word_count()).any(|index| {
            let [read, write, except] = self.words(index);
            numbers(index, read | write | except).any(&is_it)
        })
    }

    /// The descriptors as for `poll(2)`, one by one.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = pollfd> {
        (0..self.word_count()).flat_map(|index| {
            let words = self.words(index);
            numbers(index, words[0] | words[1] | words[2]).map(move |fd| {
                let asked = words
                    .into_iter()
                    .zip(ASKED)
                    .filter(|(word, _)| word & bit(fd) != 0);
                pollfd {
                    fd,
                    events: asked.fold(0, |events, (_, asked)| events | asked),
                    revents: 0,
                }
            })
        })
    }

    /// The same as a list, in `few` if they fit there, else in `many`.
    #[inline]
    pub fn polled<'a>(
        &self,
        few: &'a mut [pollfd; Self::FEW],
        many: &'a mut Vec<pollfd>,
    ) -> &'a mut [pollfd] {
        let mut fds = self.entries();
        let mut count = 0;
        for (place, polled) in few.iter_mut().zip(&mut fds) {
            *place = polled;
            count += 1;
        }
        let Some(next) = fds.next() else {
            return &mut few[..count];
        };
        many.extend_from_slice(few);
        many.push(next);
        many.extend(fds);
        many
    }

    /// Leaves in the sets what is ready, and returns the number of bits that are set: once for each
    /// set that a descriptor is ready in. `polled` is what `poll(2)` has made of the list.
    ///
    /// # Errors
    /// One is not open; the sets stay as they are.
    pub fn store(&self, polled: &[pollfd]) -> Result<c_int, Errno> {
        let is_closed = |polled: &pollfd| polled.revents & libc::POLLNVAL != 0;
        if polled.iter().any(is_closed) {
            return Err(Errno(libc::EBADF));
        }
        let mut count = 0;
        for polled in polled {
            for ((set, asked), ready) in self.sets.iter().zip(ASKED).zip(READY) {
                if polled.events & asked == 0 {
                    continue;
                }
                let is_ready = polled.revents & ready != 0;
                count += c_int::from(is_ready);
                if is_ready {
                    continue;
                }
                let index = polled.fd.unsigned_abs() as usize / 64;
                let word = set.cast::<u64>().wrapping_add(index);
                // SAFETY: the bit was read from this set.
                let others = unsafe { word.read_unaligned() } & !bit(polled.fd);
                // SAFETY: as above.
                unsafe { word.write_unaligned(others) };
            }
        }
        Ok(count)
    }

    /// Words in a set; the kernel, too, reads whole ones.
    #[inline]
    fn word_count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0).div_ceil(64)
    }

    /// A word of each set, without what lies beyond `count`.
    #[inline]
    fn words(&self, index: usize) -> [u64; 3] {
        let beyond = (index + 1) * 64 - (self.count.unsigned_abs() as usize).min((index + 1) * 64);
        self.sets.map(|set| {
            if set.is_null() {
                return 0;
            }
            let word = set.cast::<u64>().wrapping_add(index);
            // SAFETY: a word of the set, which was looked at in `new` and is the program's own.
            let word = unsafe { word.read_unaligned() };
            word & (u64::MAX >> beyond)
        })
    }
}

/// The descriptors whose bits are set in a word of a set.
#[inline]
fn numbers(index: usize, mut word: u64) -> impl Iterator<Item = c_int> {
    std::iter::from_fn(move || {
        let lowest = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            (index * 64 + lowest) as c_int
        })
    })
}

#[inline]
fn bit(fd: c_int) -> u64 {
    1 << (fd.unsigned_abs() % 64)
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use libc::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI};

    use super::*;

    type Words = [u64; 2];

    /// Those of `count` descriptors in these sets.
    fn sets(count: c_int, words: &mut [Words; 3]) -> FdSets {
        let pointers = words.each_mut().map(|set| set.as_mut_ptr().cast());
        // SAFETY: sets of 128 descriptors each, which live as long as the test.
        unsafe { FdSets::new(count, pointers) }.unwrap()
    }

    fn list(sets: &FdSets) -> Vec<(c_int, c_short)> {
        sets.entries()
            .map(|polled| (polled.fd, polled.events))
            .collect()
    }

    #[test]
    fn descriptors_are_asked_for_by_the_sets_they_are_in() {
        let mut words = [[1 << 3, 1 << 1], [1 << 3 | 1 << 63, 0], [0, 1 << 1]];
        let all = sets(128, &mut words);
        assert_eq!(
            list(&all),
            [(3, POLLIN | POLLOUT), (63, POLLOUT), (65, POLLIN | POLLPRI)]
        );
        let fewer = sets(65, &mut words);
        assert_eq!(list(&fewer), [(3, POLLIN | POLLOUT), (63, POLLOUT)]);
        assert_eq!(list(&sets(3, &mut words)), []);
        assert_eq!(list(&sets(0, &mut words)), []);
        assert_eq!(list(&sets(-1, &mut words)), []);
    }

    #[test]
    fn a_set_may_be_missing_or_bad() {
        let mut read: Words = [1 << 5, 0];
        let none = ptr::null_mut();
        // SAFETY: a set of 128 descriptors.
        let all = unsafe { FdSets::new(128, [read.as_mut_ptr().cast(), none, none]) };
        assert_eq!(list(&all.unwrap()), [(5, POLLIN)]);
        // SAFETY: there is no set.
        let all = unsafe { FdSets::new(c_int::MAX, [none; 3]) };
        assert!(all.is_some());
        let bad = ptr::without_provenance_mut(8);
        // SAFETY: what cannot be read and written is not.
        assert!(unsafe { FdSets::new(1, [none, bad, none]) }.is_none());
        // SAFETY: as above; of no descriptor no word is looked at.
        assert!(unsafe { FdSets::new(0, [none, bad, none]) }.is_some());
    }

    #[test]
    fn descriptors_are_found_wherever_they_are() {
        let mut words = [[0, 1 << 2], [1 << 7, 0], [0, 0]];
        let all = sets(128, &mut words);
        assert!(all.any(|fd| fd == 66) && all.any(|fd| fd == 7) && !all.any(|fd| fd == 8));
        assert!(all.any_from(66, |fd| fd == 66) && !all.any_from(64, |fd| fd == 7));
    }

    #[test]
    fn many_descriptors_are_a_list_of_their_own() {
        for (word, count) in [(0, 0), (0xff, 8), (0x1ff, 9), (u64::MAX, 64)] {
            let mut words = [[word, 0], [0; 2], [0; 2]];
            let (mut few, mut many) = ([FdSets::NONE; FdSets::FEW], Vec::new());
            let fds = sets(128, &mut words).polled(&mut few, &mut many);
            let numbers: Vec<_> = fds.iter().map(|polled| polled.fd).collect();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_descriptor_counts_once_for_each_set_that_it_is_ready_in() {
        let mut words = [[0b0111, 0], [0b0101, 0], [0b1010, 0]];
        let all = sets(64, &mut words);
        let mut fds: Vec<_> = all.entries().collect();
        let seen = [POLLIN | POLLOUT, POLLHUP, POLLERR, POLLHUP | POLLERR];
        for (polled, revents) in fds.iter_mut().zip(seen) {
            polled.revents = revents;
        }
        assert_eq!(all.store(&fds), Ok(5));
        assert_eq!(words, [[0b0111, 0], [0b0101, 0], [0, 0]]);
        assert_eq!(
            sets(64, &mut words).store(&[]),
            Ok(0),
            "nothing is asked for"
        );
        let all = sets(64, &mut words);
        let fds: Vec<_> = all.entries().collect();
        assert_eq!(all.store(&fds), Ok(0));
        assert_eq!(words, [[0; 2]; 3]);
    }

    #[test]
    fn sets_with_a_closed_descriptor_stay_as_they_are() {
        let mut words = [[0b11, 0], [0; 2], [0; 2]];
        let all = sets(64, &mut words);
        let mut fds: Vec<_> = all.entries().collect();
        fds[1].revents = POLLNVAL;
        assert_eq!(all.store(&fds), Err(Errno(libc::EBADF)));
        assert_eq!(words[0], [0b11, 0]);
    }
}
