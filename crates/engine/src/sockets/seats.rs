//! Where leaders sleep (`links::lead`): epoll instances of the library.
//!
//! A seat has an interface's rings in it with `EPOLLEXCLUSIVE`, so that the kernel goes on to the
//! next one that watches while nobody sleeps in it, the eventfd by which other threads wake the
//! leader, and what the kernel reports of the program's own descriptors. The latter stay in it as
//! long as the same is asked for, so that a thread that sleeps again and again changes nothing.

use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use descriptors::OwnDescriptor;
use libc::{c_int, epoll_event, pollfd};
use links::wait::Waiter;
use links::watch::{self, Rings};

use crate::sockets::interrupt;

/// Seats, at most: each takes two descriptors, and the kernel asks one after the other.
const MAX: u32 = 16;
/// Of the same rings that nobody sleeps in: from so many on one changes what it has of the
/// program's, before another is made.
const RESTING_MAX: usize = 4;
/// Descriptors of the program's in a seat, at most, and those of them that have to leave it after
/// each sleep.
const KERNELS_MAX: usize = 64;
const PASSING_MAX: usize = 4;

const IN: u32 = libc::EPOLLIN as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;

/// What is no device in the data of an event. That of the kernel's has the place in the list, and
/// the list's number.
const KERNEL: u64 = 1 << 32;
const WAITER: u64 = 2 << 32;
const WAKES_ALL: u64 = 3 << 32;
const KIND: u64 = 3 << 32;
const LIST_SHIFT: u32 = 40;

/// What the kernel is asked about a descriptor of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernels {
    pub(crate) fd: RawFd,
    pub(crate) events: u32,
    /// Which life of which object it stands for; without that the number may stand for something
    /// else at any time.
    pub(crate) of: Option<(usize, u32)>,
}

/// What a leader sleeps in.
#[derive(Debug)]
pub(crate) struct Seat {
    epoll: OwnDescriptor,
    pub(crate) waiter: Arc<Waiter>,
    rings: Vec<&'static dyn Rings>,
    kernels: Vec<Kernels>,
    list: u32,
    /// What is in it is not known any more.
    is_spoilt: bool,
    _counted: Counted,
}

impl Seat {
    fn new(rings: &[&'static dyn Rings]) -> Option<Self> {
        let counted = Counted::new()?;
        let seat = Self {
            epoll: sys::epoll().ok()?,
            waiter: Waiter::new()?,
            rings: rings.to_vec(),
            kernels: Vec::new(),
            list: 0,
            is_spoilt: false,
            _counted: counted,
        };
        let mut is_complete = seat.add(seat.waiter.fd(), IN, WAITER);
        if let Some(fd) = interrupt::wakes_all() {
            is_complete &= seat.add(fd, IN, WAKES_ALL);
        }
        for fd in rings.iter().flat_map(|rings| rings.wait_fds()) {
            is_complete &= seat.add(fd, IN | EXCLUSIVE, u64::from(fd.cast_unsigned()));
        }
        rings.iter().for_each(|rings| watch::comes_behind(*rings));
        is_complete.then_some(seat)
    }

    fn add(&self, fd: RawFd, events: u32, data: u64) -> bool {
        let event = epoll_event { events, u64: data };
        sys::epoll_add(self.fd(), fd, event)
    }

    pub(crate) fn fd(&self) -> c_int {
        self.epoll.as_raw_fd()
    }

    fn is_of(&self, rings: &[&'static dyn Rings]) -> bool {
        let same = |(one, other): (&&dyn Rings, &&dyn Rings)| ptr::addr_eq(*one, *other);
        self.rings.len() == rings.len() && self.rings.iter().zip(rings).all(same)
    }

    /// `false`: the kernel refuses one, or has others than are known.
    fn watch(&mut self, kernels: &[Kernels]) -> bool {
        if self.kernels == kernels {
            return true;
        }
        let known = std::mem::take(&mut self.kernels);
        let is_gone = |known: &Kernels| sys::epoll_remove(self.fd(), known.fd);
        if !known.iter().all(is_gone) {
            return false;
        }
        self.list = self.list.wrapping_add(1) & 0xff_ffff;
        self.kernels = kernels.to_vec();
        let list = KERNEL | u64::from(self.list) << LIST_SHIFT;
        let added = |(index, kernels): (usize, &Kernels)| {
            self.add(kernels.fd, kernels.events, list | index as u64)
        };
        self.kernels.iter().enumerate().all(added)
    }

    /// What the kernel has reported: shows it in `fds`, which has the kernel's descriptors and the
    /// devices. Returns what woke.
    pub(crate) fn reported(&mut self, events: &[epoll_event], fds: &mut Vec<pollfd>) -> Seen {
        let mut seen = Seen::default();
        for event in events {
            let (data, bits) = (event.u64, event.events);
            match data & KIND {
                0 => fds.push(pollfd {
                    fd: data as RawFd,
                    events: libc::POLLIN,
                    revents: libc::POLLIN,
                }),
                KERNEL => {
                    let polled = fds.get_mut((data & 0xffff) as usize);
                    match polled.filter(|_| data >> LIST_SHIFT == u64::from(self.list)) {
                        Some(polled) => polled.revents = bits as i16,
                        // Of a file that outlives the number.
                        None => self.is_spoilt = true,
                    }
                    seen.kernel = true;
                }
                WAITER => seen.waiter = true,
                _ => seen.kernel = true,
            }
        }
        seen
    }

    /// Nobody sleeps in it any more.
    pub(crate) fn give(mut seat: Self, is_readable: bool) {
        seat.waiter.end_sleep(is_readable);
        let mut is_known = !seat.is_spoilt;
        if seat.kernels.iter().any(|kernels| kernels.of.is_none()) {
            let all = std::mem::take(&mut seat.kernels);
            for kernels in all {
                match kernels.of {
                    Some(_) => seat.kernels.push(kernels),
                    None => is_known &= sys::epoll_remove(seat.fd(), kernels.fd),
                }
            }
            // The places are others.
            is_known &= seat.kernels.is_empty();
        }
        if is_known {
            pool().push(seat);
        }
    }
}

/// What woke a leader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) kernel: bool,
    pub(crate) waiter: bool,
}

/// One of at most [`MAX`].
#[derive(Debug)]
struct Counted(());

/// How many there are.
static COUNT: AtomicU32 = AtomicU32::new(0);

impl Counted {
    fn new() -> Option<Self> {
        let one_more = |count: u32| (count < MAX).then_some(count + 1);
        let counted = COUNT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.is_ok().then_some(Self(()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `epoll_pwait2(2)` is not to be had.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A filter of system calls does not know it, or the kernel is too old.
pub(crate) fn note_refusal() {
    IS_REFUSED.store(true, Ordering::Relaxed);
}

/// A seat for the leader of these rings who asks the kernel these things. `None`: it cannot sleep
/// in one.
pub(crate) fn take(rings: &[&'static dyn Rings], kernels: &[Kernels]) -> Option<Seat> {
    let passing = kernels.iter().filter(|kernels| kernels.of.is_none());
    if IS_REFUSED.load(Ordering::Relaxed)
        || kernels.len() > KERNELS_MAX
        || passing.count() > PASSING_MAX
    {
        return None;
    }
    let mut seat = known(rings, kernels).or_else(|| Seat::new(rings))?;
    if !seat.watch(kernels) {
        drop(seat);
        seat = Seat::new(rings)?;
        if !seat.watch(kernels) {
            return None;
        }
    }
    seat.waiter.begin_sleep();
    Some(seat)
}

/// One that is there, if none of these is to be made.
fn known(rings: &[&'static dyn Rings], kernels: &[Kernels]) -> Option<Seat> {
    let mut pool = pool();
    let fits = |seat: &Seat| seat.is_of(rings) && seat.kernels == kernels;
    let place = pool.iter().position(fits).or_else(|| {
        let resting = pool.iter().filter(|seat| seat.is_of(rings)).count();
        if COUNT.load(Ordering::Relaxed) < MAX && resting < RESTING_MAX {
            return None;
        }
        let place = pool.iter().position(|seat| seat.is_of(rings));
        if place.is_none() && !pool.is_empty() {
            // It makes room.
            drop(pool.swap_remove(0));
        }
        place
    })?;
    Some(pool.swap_remove(place))
}

type Pool = Mutex<Vec<Seat>>;

/// Seats that nobody sleeps in. Made when it is first needed; null before.
static POOL: AtomicPtr<Pool> = AtomicPtr::new(ptr::null_mut());

fn pool() -> MutexGuard<'static, Vec<Seat>> {
    let mut pool = POOL.load(Ordering::Acquire);
    if pool.is_null() {
        let fresh = Box::into_raw(Box::new(Pool::default()));
        match POOL.compare_exchange(pool, fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => pool = fresh,
            Err(other) => {
                // SAFETY: `fresh` came from Box::into_raw above and was not published.
                drop(unsafe { Box::from_raw(fresh) });
                pool = other;
            }
        }
    }
    // SAFETY: a published pool is never freed.
    unsafe { &*pool }
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

/// In a forked child, where the descriptors are closed, and the lock may be held by a thread that
/// is not here.
pub(crate) fn forget() {
    POOL.store(ptr::null_mut(), Ordering::Release);
    COUNT.store(0, Ordering::Relaxed);
}
