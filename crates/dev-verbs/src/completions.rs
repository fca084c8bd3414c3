//! The receiving completion queue, for who receives and for those who look whether packets wait:
//! a queue can only be looked at by taking from it, so what a look has found waits here.
//!
//! The channel's descriptor is readable while packets may wait, or becomes so with the next
//! completion. So who polls pays nothing for it, however many packets come. Only when the queue has
//! been found empty some times in a row is the event taken and the next one asked for. What comes
//! between the two raises none: then a descriptor of our own is readable instead, until the next
//! time.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use descriptors::OwnDescriptor;
use dev_core::{FramePool, RxWatch};

use crate::arrived::Arrived;
use crate::one_user::{OneUser, Use};
use crate::pair::Pair;
use crate::receive_queue::ReceiveQueue;

/// Completions that are taken at once.
pub(crate) const BATCH: usize = 32;
/// Looks in vain after which the event is taken: a system call. A thread that sleeps makes as many.
const LOOKS_IN_VAIN: u32 = 64;

/// The queue, and what has been taken from it and is not used yet.
#[derive(Debug)]
pub(crate) struct Taken {
    queue: ReceiveQueue,
    completions: [Arrived; BATCH],
    first: usize,
    end: usize,
    /// Completions have come since the last event was asked for: it is there, or on its way.
    has_event: bool,
    looks_in_vain: u32,
    /// So the descriptor of our own is readable.
    came_without_event: bool,
}

/// The queue, for one user at a time.
#[derive(Debug)]
pub(crate) struct Completions {
    pub(crate) pair: Arc<Pair>,
    /// The descriptor of our own.
    pub(crate) own_event: Arc<OwnDescriptor>,
    /// How many have been used.
    place: AtomicU32,
    taken: OneUser<Taken>,
}

/// The use of the queue.
#[derive(Debug)]
pub(crate) struct Looking<'a> {
    queue: &'a Completions,
    taken: Use<'a, Taken>,
}

impl Completions {
    pub(crate) fn new(pair: Arc<Pair>) -> io::Result<Self> {
        // SAFETY: makes a descriptor.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made.
        let own_event = unsafe { OwnedFd::from_raw_fd(fd) };
        let queue = ReceiveQueue::new(&pair);
        Ok(Self {
            pair,
            own_event: Arc::new(OwnDescriptor::new(own_event)),
            place: AtomicU32::new(0),
            taken: OneUser::new(Taken {
                queue,
                completions: [Arrived::default(); BATCH],
                first: 0,
                end: 0,
                has_event: false,
                looks_in_vain: 0,
                came_without_event: false,
            }),
        })
    }

    fn try_look(&self) -> Option<Looking<'_>> {
        let taken = self.taken.try_use()?;
        Some(Looking { queue: self, taken })
    }

    /// For who receives, alone (under the ring's lock): nobody else has it for longer than a look.
    #[inline]
    pub(crate) fn look(&self) -> Looking<'_> {
        Looking {
            queue: self,
            taken: self.taken.use_it(),
        }
    }

    /// So many more were used.
    #[inline]
    pub(crate) fn count(&self, used: usize) {
        let place = self.place.load(Ordering::Relaxed);
        self.place
            .store(place.wrapping_add(used as u32), Ordering::Relaxed);
    }
}

impl Looking<'_> {
    /// Gives the device up to so many frames of the pool. Returns how many it has got.
    pub(crate) fn post(&mut self, pool: &FramePool, wanted: u32) -> u32 {
        self.taken.queue.post(pool, wanted)
    }

    /// The next completion.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Arrived> {
        if !self.look_for_one() {
            return None;
        }
        let next = self.taken.completions[self.taken.first];
        self.taken.first += 1;
        Some(next)
    }

    /// Looks for a completion. Returns whether one waits.
    #[inline]
    pub(crate) fn look_for_one(&mut self) -> bool {
        self.taken.first < self.taken.end || self.take()
    }

    /// Whether there are any more.
    #[inline]
    fn take(&mut self) -> bool {
        if self.poll() {
            return true;
        }
        if !self.taken.has_event {
            return false;
        }
        self.taken.looks_in_vain += 1;
        self.taken.looks_in_vain >= LOOKS_IN_VAIN && self.ask_for_event()
    }

    #[inline]
    fn poll(&mut self) -> bool {
        let taken = &mut *self.taken;
        let count = taken.queue.take(&mut taken.completions);
        (self.taken.first, self.taken.end) = (0, count);
        if count > 0 {
            self.taken.has_event = true;
            self.taken.looks_in_vain = 0;
        }
        count > 0
    }

    /// Takes the event that is there and asks for the next. Returns whether completions have come
    /// before that was done.
    #[cold]
    fn ask_for_event(&mut self) -> bool {
        self.taken.looks_in_vain = 0;
        if std::mem::take(&mut self.taken.came_without_event) {
            let mut count = 0_u64;
            let number = self.queue.own_event.as_raw_fd();
            // SAFETY: the buffer is as long as it says.
            unsafe { libc::syscall(libc::SYS_read, number, &raw mut count, size_of::<u64>()) };
        }
        let pair = Arc::clone(&self.queue.pair);
        pair.refresh_channel();
        let (mut cq, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the channel is live, and does not block.
        let none = unsafe {
            (pair.device.verbs.ibv_get_cq_event)(pair.channel, &raw mut cq, &raw mut context)
        };
        if none != 0 {
            // It is on its way, or the queue has not needed the one that was asked for.
            return false;
        }
        // SAFETY: the event was of this queue, the channel's only one.
        unsafe { (pair.device.verbs.ibv_ack_cq_events)(pair.receive_cq, 1) };
        self.taken.queue.ask_for_event();
        self.taken.has_event = false;
        if !self.poll() {
            return false;
        }
        self.taken.came_without_event = true;
        let count = 1_u64;
        let number = self.queue.own_event.as_raw_fd();
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_write, number, &raw const count, size_of::<u64>()) };
        true
    }
}

/// Sees from outside whether packets wait.
#[derive(Debug)]
pub struct VerbsWatch {
    queues: Box<[Arc<Completions>]>,
}

impl VerbsWatch {
    pub(crate) fn new(queues: Box<[Arc<Completions>]>) -> Self {
        Self { queues }
    }
}

impl RxWatch for VerbsWatch {
    fn waiting(&self) -> Option<u32> {
        let has_any = self.queues.iter().any(|queue| {
            // If not, somebody receives.
            let used = queue.try_look();
            used.is_none_or(|mut used| used.look_for_one())
        });
        let places = self
            .queues
            .iter()
            .map(|it| it.place.load(Ordering::Relaxed));
        has_any.then(|| places.fold(0, u32::wrapping_add))
    }
}
