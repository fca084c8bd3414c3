//! The descriptors of a `poll(2)` as sets for `select(2)`, which takes any number of them:
//! `poll(2)` takes no more than the process may have, even if it has them already.

use std::mem::ManuallyDrop;

use libc::{c_int, c_short, fd_set, pollfd};
use sys::Errno;

/// From here on a number is looked at for whether it is a descriptor at all: sets that reach to any
/// number are large.
const HIGH: c_int = 1 << 16;
/// What each set asks for.
pub(crate) const ASKED: [c_short; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

/// Sets for reading, for writing and for exceptions. They are not dropped: a thread may be
/// cancelled in the call.
#[derive(Debug)]
pub struct SelectSets {
    count: c_int,
    sets: [ManuallyDrop<Vec<u64>>; 3],
}

impl SelectSets {
    /// What `fds` ask for.
    pub fn of(fds: &[pollfd]) -> Self {
        let numbers = fds.iter().map(|polled| polled.fd);
        let is_one = |fd: &c_int| *fd < HIGH || sys::status_flags(*fd).is_ok();
        let highest = numbers.filter(is_one).max().unwrap_or(-1);
        let count = highest.max(-1) + 1;
        let words = count.unsigned_abs().div_ceil(u64::BITS) as usize;
        let mut sets = ASKED.map(|_| ManuallyDrop::new(vec![0; words]));
        for polled in fds {
            let Ok(fd) = usize::try_from(polled.fd) else {
                continue;
            };
            for (set, asked) in sets.iter_mut().zip(ASKED) {
                if polled.events & asked != 0
                    && let Some(word) = set.get_mut(fd / 64)
                {
                    *word |= 1 << (fd % 64);
                }
            }
        }
        Self { count, sets }
    }

    /// The first argument of `select(2)`.
    pub fn count(&self) -> c_int {
        self.count
    }

    /// The sets, each of which has room for that many descriptors.
    pub fn as_mut_ptrs(&mut self) -> [*mut fd_set; 3] {
        self.sets.each_mut().map(|set| set.as_mut_ptr().cast())
    }

    /// Shows in `fds`, of which the sets were made, what `select(2)` has left in them; `found` is
    /// its result.
    pub fn store(self, fds: &mut [pollfd], found: c_int) {
        let [read, write, except] = self.sets.map(ManuallyDrop::into_inner);
        for polled in fds {
            polled.revents = 0;
            let Ok(fd) = usize::try_from(polled.fd) else {
                continue;
            };
            for (set, asked) in [&read, &write, &except].into_iter().zip(ASKED) {
                let word = set.get(fd / 64).copied().unwrap_or(0);
                if found > 0 && word & 1 << (fd % 64) != 0 {
                    polled.revents |= polled.events & asked;
                }
            }
        }
    }
}

/// `select(2)` without waiting, of what `fds` ask for.
pub(super) fn select_now(fds: &mut [pollfd]) -> Result<usize, Errno> {
    let mut sets = SelectSets::of(fds);
    let (count, pointers) = (sets.count(), sets.as_mut_ptrs());
    // SAFETY: each set has room for that many descriptors.
    let result = unsafe { sys::select_now(count, pointers) };
    let found = result.map_or(-1, |found| found as c_int);
    sets.store(fds, found);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_what_is_asked_for() {
        let polled = |fd, events| pollfd {
            fd,
            events,
            revents: 0x7f,
        };
        let both = libc::POLLIN | libc::POLLOUT;
        let mut fds = [polled(64, both), polled(-1, both), polled(3, libc::POLLPRI)];
        let sets = SelectSets::of(&fds);
        assert_eq!(sets.count(), 65);
        assert_eq!(
            sets.sets.each_ref().map(|set| (set[0], set[1])),
            [(0, 1), (0, 1), (8, 0)]
        );
        sets.store(&mut fds, 3);
        assert_eq!(fds.map(|polled| polled.revents), [both, 0, libc::POLLPRI]);
        SelectSets::of(&fds).store(&mut fds, -1);
        assert_eq!(fds.map(|polled| polled.revents), [0; 3]);
        assert_eq!(SelectSets::of(&[]).count(), 0);
    }

    #[test]
    fn a_number_that_is_no_descriptor_is_in_no_set() {
        let polled = |fd| pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0x7f,
        };
        for fd in [c_int::MAX, c_int::MIN] {
            let mut fds = [polled(fd), polled(3)];
            let sets = SelectSets::of(&fds);
            assert_eq!(sets.count(), 4);
            assert_eq!(sets.sets[0][..], [8]);
            sets.store(&mut fds, 1);
            assert_eq!(fds.map(|polled| polled.revents), [0, libc::POLLIN]);
        }
    }
}
