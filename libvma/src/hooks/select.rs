//! `select(2)`.

use std::time::Instant;

use descriptors::own;
use engine::Engine;
use engine::user_memory::is_writable;
use libc::{c_int, c_short, fd_set, pollfd, sigset_t, timespec, timeval};

use super::define::hook;
use super::numbers::is_own;
use super::poll::poll_ours;
use super::waits::{NSEC_PER_SEC, is_bad_mask, timespec_at};
use crate::guard::{contained, fail};
use crate::process_state::{self, Device};
use crate::{adoption, call, real, runtime};

hook! {
    /// `select(2)`
    fn select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::select(count, read, write, except, timeout) };
        let mut waits = None;
        let wait = || {
            // SAFETY: what the timeout leads to is the caller's own.
            let wait = unsafe { timeval_at(timeout) }?;
            waits = wait.map(|wait| (wait, Instant::now()));
            Ok(wait)
        };
        let sets = [read, write, except];
        // SAFETY: the sets are the caller's.
        let result = unsafe { select_any(count, sets, wait, std::ptr::null(), kernel) };
        let Some(result) = result else { return kernel() };
        // Linux leaves the time that was not slept.
        if let Some((wait, begun)) = waits {
            let passed = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let rest = wait.saturating_sub(passed);
            let left = timeval {
                tv_sec: libc::time_t::try_from(rest / NSEC_PER_SEC).unwrap_or(libc::time_t::MAX),
                tv_usec: (rest % NSEC_PER_SEC / 1000) as libc::suseconds_t,
            };
            // SAFETY: there is a timeout, writable (checked above).
            unsafe { timeout.write_unaligned(left) };
        }
        result
    }
}

hook! {
    /// `select(2)` by another name
    fn __select(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *mut timeval,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        unsafe { select(count, read, write, except, timeout) }
    }
}

hook! {
    /// `pselect(2)`
    fn pselect(
        count: c_int,
        read: *mut fd_set,
        write: *mut fd_set,
        except: *mut fd_set,
        timeout: *const timespec,
        mask: *const sigset_t,
    ) -> c_int {
        // SAFETY: the arguments are the caller's own.
        let kernel = || unsafe { real::pselect(count, read, write, except, timeout, mask) };
        // SAFETY: what the timeout leads to is the caller's own.
        let wait = || unsafe { timespec_at(timeout) };
        // SAFETY: the sets are the caller's.
        let result = unsafe { select_any(count, [read, write, except], wait, mask, kernel) };
        result.unwrap_or_else(kernel)
    }
}

/// `select(2)` and `pselect(2)`. `wait` reads the timeout, if the call is ours. `None`: it is for
/// the kernel.
///
/// # Safety
/// The sets must be as `Sets::with_ours` asks.
#[inline]
unsafe fn select_any(
    count: c_int,
    sets: [*mut fd_set; 3],
    wait: impl FnOnce() -> Result<Option<u64>, ()>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int + Copy,
) -> Option<c_int> {
    // SAFETY: the caller's promise.
    unsafe { Sets::recall(count, sets) };
    // SAFETY: the caller's promise.
    let have_own = unsafe { Sets::have_own(count, sets) };
    let ours = process_state::engine().and_then(|engine| {
        // SAFETY: the caller's promise.
        let sets = unsafe { Sets::with_ours(engine, count, sets) };
        Some((engine, sets?))
    });
    if ours.is_none() && !have_own {
        return None;
    }
    let wait = wait().ok()?;
    if is_bad_mask(mask) {
        return None;
    }
    if have_own {
        return Some(fail(libc::EBADF));
    }
    let (engine, sets) = ours?;
    call::cancellation_point();
    // SAFETY: the caller's promise.
    unsafe { select_ours(engine, &sets, wait, mask, kernel) }
}

/// A timeout of the caller's, in nanoseconds, with room for what is left of it. `Err`: the kernel
/// says what it thinks of it.
///
/// # Safety
/// What it leads to must be the caller's own.
unsafe fn timeval_at(timeout: *const timeval) -> Result<Option<u64>, ()> {
    if timeout.is_null() {
        return Ok(None);
    }
    if !is_writable(timeout, size_of::<timeval>()) {
        return Err(());
    }
    // SAFETY: readable (checked above), and the caller's own.
    let time = unsafe { timeout.read_unaligned() };
    if time.tv_sec < 0 || time.tv_usec < 0 {
        return Err(());
    }
    let sec = time.tv_sec.unsigned_abs().saturating_mul(NSEC_PER_SEC);
    let rest = time.tv_usec.unsigned_abs().saturating_mul(1000);
    Ok(Some(sec.saturating_add(rest)))
}

/// `select(2)` with something of ours in the sets. `None`: it is for the kernel all the same.
///
/// # Safety
/// The sets must be as `Sets::with_ours` asks.
unsafe fn select_ours(
    engine: &'static Engine<Device>,
    sets: &Sets,
    timeout_nsec: Option<u64>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int + Copy,
) -> Option<c_int> {
    let (mut few, mut many) = ([NONE; FEW], Vec::new());
    // SAFETY: the caller's promise.
    let fds = unsafe { sets.polled(&mut few, &mut many) };
    let result = poll_ours(engine, fds, timeout_nsec, mask, true, kernel)?;
    if result < 0 {
        return Some(result);
    }
    if fds
        .iter()
        .any(|polled| polled.revents & libc::POLLNVAL != 0)
    {
        return Some(fail(libc::EBADF));
    }
    // SAFETY: the caller's promise.
    Some(unsafe { sets.store(fds) })
}

/// What makes a descriptor ready in each set (kernel `fs/select.c`).
const READY: [c_short; 3] = [
    libc::POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLWRNORM | libc::POLLWRBAND | libc::POLLERR,
    libc::POLLPRI,
];
/// What is asked for.
const ASKED: [c_short; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];

/// Descriptors that need no memory of their own.
const FEW: usize = 8;
const NONE: pollfd = pollfd {
    fd: -1,
    events: 0,
    revents: 0,
};

/// The three sets of a `select(2)`. Programs with more than `FD_SETSIZE` descriptors pass longer
/// sets than the type says.
struct Sets {
    count: c_int,
    sets: [*mut fd_set; 3],
}

impl Sets {
    /// The sets, if a descriptor in them stands for something of ours.
    ///
    /// # Safety
    /// The sets must be null or valid for `count` descriptors, or for as many as the kernel's table
    /// of them has.
    #[inline]
    unsafe fn with_ours(
        engine: &Engine<Device>,
        count: c_int,
        sets: [*mut fd_set; 3],
    ) -> Option<Self> {
        let within_reach = Self {
            count: count.min(engine.highest_descriptor().saturating_add(1)),
            sets,
        };
        // SAFETY: the caller's promise; the sets are writable as far as they are looked at.
        if !within_reach.are_writable() || !unsafe { within_reach.are_ours(engine) } {
            return None;
        }
        let all = Self {
            count: kernel_count(count),
            sets,
        };
        all.are_writable().then_some(all)
    }

    /// Whether a number of the library's own is in the sets. To the program it is not open.
    ///
    /// # Safety
    /// That of `with_ours`.
    #[inline]
    unsafe fn have_own(count: c_int, sets: [*mut fd_set; 3]) -> bool {
        let lowest = own::lowest();
        if count <= lowest {
            return false;
        }
        let all = Self {
            count: kernel_count(count),
            sets,
        };
        let first = lowest.unsigned_abs() as usize / 64;
        all.are_writable()
            && (first..all.word_count()).any(|index| {
                // SAFETY: the caller's promise.
                let [read, write, except] = unsafe { all.words(index) };
                bits(index, read | write | except).any(is_own)
            })
    }

    /// The sets are about to be used, perhaps with something in them that ancestors of the process
    /// have in user space.
    ///
    /// # Safety
    /// That of `with_ours`.
    #[inline]
    unsafe fn recall(count: c_int, sets: [*mut fd_set; 3]) {
        if runtime::has_ancestors() {
            let count = kernel_count(count);
            let all = Self { count, sets };
            if all.are_writable() {
                // SAFETY: the caller's promise.
                let fds = unsafe { all.entries() };
                adoption::adopt_or_recall(fds.map(|polled| polled.fd));
            }
        }
    }

    /// Whether the sets can be read and written, as `select(2)` does. If not, the kernel refuses
    /// them.
    #[inline]
    fn are_writable(&self) -> bool {
        let len = self.word_count() * size_of::<u64>();
        self.sets
            .iter()
            .all(|set| set.is_null() || is_writable(*set, len))
    }

    /// Whether a descriptor in the sets stands for something of ours.
    ///
    /// # Safety
    /// The sets must be null or valid for `self.count` descriptors.
    #[inline]
    unsafe fn are_ours(&self, engine: &Engine<Device>) -> bool {
        (0..self.word_count()).any(|index| {
            // SAFETY: the caller's promise.
            let [read, write, except] = unsafe { self.words(index) };
            bits(index, read | write | except).any(|fd| engine.look_up(fd).is_some())
        })
    }

    /// The descriptors as for `poll(2)`, in `few` if they fit there, else in `many`.
    ///
    /// # Safety
    /// That of `with_ours`.
    #[inline]
    unsafe fn polled<'a>(
        &self,
        few: &'a mut [pollfd; FEW],
        many: &'a mut Vec<pollfd>,
    ) -> &'a mut [pollfd] {
        // SAFETY: the caller's promise.
        let mut fds = unsafe { self.entries() };
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

    /// The same one by one.
    ///
    /// # Safety
    /// That of `with_ours`, as long as the iterator is used.
    #[inline]
    unsafe fn entries(&self) -> impl Iterator<Item = pollfd> {
        (0..self.word_count()).flat_map(|index| {
            // SAFETY: the caller's promise.
            let words = unsafe { self.words(index) };
            bits(index, words[0] | words[1] | words[2]).map(move |fd| {
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

    /// Writes the result into the application's sets and returns the number of bits set.
    ///
    /// # Safety
    /// That of `with_ours`; `fds` must come from `polled`.
    unsafe fn store(&self, fds: &[pollfd]) -> c_int {
        let mut count = 0;
        for polled in fds {
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
        count
    }

    /// Words in a set; the kernel, too, reads whole ones.
    fn word_count(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0).div_ceil(64)
    }

    /// A word of each set, without what lies beyond `count`.
    ///
    /// # Safety
    /// That of `with_ours`; the word must lie within the sets.
    #[inline]
    unsafe fn words(&self, index: usize) -> [u64; 3] {
        let beyond = (index + 1) * 64 - (self.count.unsigned_abs() as usize).min((index + 1) * 64);
        self.sets.map(|set| {
            if set.is_null() {
                return 0;
            }
            let word = set.cast::<u64>().wrapping_add(index);
            // SAFETY: the caller's promise.
            let word = unsafe { word.read_unaligned() };
            word & (u64::MAX >> beyond)
        })
    }
}

/// How many descriptors the kernel looks at: not more than its table has (`fs/select.c`). Programs
/// rely on that, which pass the limit on descriptors and sets of `FD_SETSIZE`.
fn kernel_count(count: c_int) -> c_int {
    if count <= libc::FD_SETSIZE as c_int {
        return count;
    }
    let size = contained(descriptors::table_size).ok().flatten();
    size.map_or(count, |size| count.min(size))
}

/// The descriptors whose bits are set in a word of a set.
#[inline]
fn bits(index: usize, mut word: u64) -> impl Iterator<Item = c_int> {
    std::iter::from_fn(move || {
        let lowest = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            (index * 64 + lowest) as c_int
        })
    })
}

fn bit(fd: c_int) -> u64 {
    1 << (fd.unsigned_abs() % 64)
}
