//! The queue of one socket.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::tcp::Instant;
use links::Receiver;
use links::interface::sending::{Sender, Transmitted};

use crate::sockets::pacing::gauge::Gauge;
use crate::sockets::pacing::limit::Rate;

/// Nothing waits.
pub(super) const NEVER: u64 = u64::MAX;
/// When a ring that is full is looked at again; and one that has been for longer than this second
/// time, for the interface may be down.
const FULL_RING_NSEC: u64 = 20_000;
const STUCK_RING_NSEC: u64 = 1_000_000;

/// A datagram socket, which has room for what is to be sent, or has none, whatever the kernel tells
/// of its own.
pub(crate) trait Room: Sync {
    fn show_room(&self, has_room: bool);
}

/// Packets that wait for their time to leave.
pub(crate) struct PacedQueue<S: Receiver> {
    waiting: Mutex<Waiting<S>>,
    /// When the first of them may leave, or `NEVER`.
    next_nsec: AtomicU64,
    /// What the kernel would charge for them.
    charged: AtomicUsize,
    /// `SO_SNDBUF`
    limit: AtomicUsize,
    /// Threads that let packets leave while they wait for room.
    drivers: AtomicU32,
    /// The socket, as long as it is open.
    owner: Mutex<Option<&'static dyn Room>>,
    /// It shows that there is no room.
    shows_full: AtomicBool,
}

struct Waiting<S: Receiver> {
    gauge: Gauge,
    rate: Rate,
    /// Since when the ring of the first has had no room.
    full_since: Option<Instant>,
    /// Those that leave at a time of their own stand among the others by that, as with fq.
    packets: VecDeque<Packet<S>>,
}

/// A packet on its way into the queue.
pub(crate) struct Packet<S: Receiver> {
    pub(crate) sender: Sender<S>,
    pub(crate) bytes: Vec<u8>,
    /// What the kernel would charge.
    pub(crate) charge: usize,
    /// When it leaves, whatever the rate; else when it came.
    pub(crate) at_nsec: u64,
    pub(crate) has_own_time: bool,
}

impl<S: Receiver> PacedQueue<S> {
    pub(crate) fn new(owner: &'static dyn Room) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                gauge: Gauge::new(Rate::NONE),
                rate: Rate::NONE,
                full_since: None,
                packets: VecDeque::new(),
            }),
            next_nsec: AtomicU64::new(NEVER),
            charged: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            drivers: AtomicU32::new(0),
            owner: Mutex::new(Some(owner)),
            shows_full: AtomicBool::new(false),
        }
    }

    /// The socket has other options. What waits leaves at another rate from here on.
    pub(crate) fn set(&self, rate: Rate, send_buffer: usize) {
        self.limit.store(send_buffer, Ordering::SeqCst);
        let mut waiting = self.lock();
        if waiting.rate != rate {
            (waiting.rate, waiting.gauge) = (rate, Gauge::new(rate));
        }
        drop(waiting);
        self.release();
    }

    /// The socket is closed. What waits leaves even so.
    pub(crate) fn leave_socket(&self) {
        *self.owner.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether a message may come (`sock_alloc_send_pskb`).
    pub(crate) fn has_room(&self) -> bool {
        self.charged.load(Ordering::SeqCst) < self.limit.load(Ordering::Relaxed)
    }

    /// Takes the packets of a message, and lets those leave that may. Returns when the next may.
    pub(crate) fn put(&self, packets: impl Iterator<Item = Packet<S>>) -> u64 {
        let mut waiting = self.lock();
        for packet in packets {
            self.charged.fetch_add(packet.charge, Ordering::SeqCst);
            let later = |other: &Packet<S>| other.at_nsec > packet.at_nsec;
            let behind = waiting.packets.iter().rev().take_while(|it| later(it));
            let place = waiting.packets.len() - behind.count();
            waiting.packets.insert(place, packet);
        }
        drop(waiting);
        self.release()
    }

    /// Lets packets leave whose time has come. Returns when the next may, or `NEVER`.
    pub(crate) fn release(&self) -> u64 {
        let mut waiting = self.lock();
        let next = loop {
            let now = Instant::from_nanos(sys::now_nsec());
            let (filled, next) = self.fill_ring(&mut waiting, now);
            let Some(sender) = filled else {
                break next;
            };
            // Under the lock: nothing overtakes what is told of late, and follows it too closely.
            sender.start_segments();
            let told = Instant::from_nanos(sys::now_nsec());
            waiting.gauge.note_telling(told.saturating_since(now));
        };
        self.next_nsec.store(next, Ordering::SeqCst);
        drop(waiting);
        self.show_room();
        next
    }

    /// Puts packets into a ring whose time has come. Returns the ring, if it is to be told of them:
    /// then there may be more. Else, when the next may leave.
    fn fill_ring(&self, waiting: &mut Waiting<S>, now: Instant) -> (Option<Sender<S>>, u64) {
        let Waiting {
            gauge,
            packets,
            full_since,
            ..
        } = waiting;
        let mut filled: Option<Sender<S>> = None;
        loop {
            let Some(first) = packets.front() else {
                gauge.rest();
                return (filled, NEVER);
            };
            if filled.is_some_and(|filled| !filled.is_same(&first.sender)) {
                return (filled, 0);
            }
            let octets = u32::try_from(first.bytes.len()).unwrap_or(u32::MAX);
            let at = match first.has_own_time {
                true => Some(Instant::from_nanos(first.at_nsec)).filter(|at| *at > now),
                false => gauge.next_at(octets, now),
            };
            if let Some(at) = at {
                return (filled, at.as_nanos());
            }
            match first.sender.transmit_packet(&first.bytes) {
                Transmitted::Full => {
                    let since = *full_since.get_or_insert(now);
                    let full_nsec = now.as_nanos().saturating_sub(since.as_nanos());
                    let is_stuck = full_nsec > STUCK_RING_NSEC;
                    let pause = if is_stuck {
                        STUCK_RING_NSEC
                    } else {
                        FULL_RING_NSEC
                    };
                    return (filled, now.as_nanos() + pause);
                }
                Transmitted::Sent { needs_kick } => {
                    *full_since = None;
                    if needs_kick {
                        filled = Some(first.sender);
                    }
                    if !first.has_own_time {
                        gauge.on_sent(octets, now);
                    }
                }
                // As in the queue of a device that is gone.
                Transmitted::Lost | Transmitted::LargerThanFrame => {}
            }
            self.charged.fetch_sub(first.charge, Ordering::SeqCst);
            packets.pop_front();
        }
    }

    /// When the internal thread is to let the next one leave, or `NEVER`. While threads of the
    /// program do so it is there for when they are held up.
    pub(super) fn next_for_internal_thread(&self) -> u64 {
        const HELD_UP_NSEC: u64 = 1_000_000;
        let next = self.next_nsec.load(Ordering::SeqCst);
        match self.drivers.load(Ordering::SeqCst) {
            0 => next,
            _ => next.saturating_add(HELD_UP_NSEC),
        }
    }

    /// A thread waits for room from here on, and lets packets leave meanwhile.
    pub(crate) fn begin_driving(&self) {
        self.drivers.fetch_add(1, Ordering::SeqCst);
    }

    /// It does not any more.
    pub(crate) fn end_driving(&self) {
        self.drivers.fetch_sub(1, Ordering::SeqCst);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().packets.is_empty()
    }

    /// Has them leave at once, whatever the rate.
    pub(super) fn flush(&self) {
        let mut waiting = self.lock();
        waiting.gauge = Gauge::new(Rate::NONE);
        for packet in &mut waiting.packets {
            packet.has_own_time = false;
        }
        drop(waiting);
        self.release();
    }

    /// Shows at the socket whether there is room, as far as that has changed (`sock_writeable`).
    fn show_room(&self) {
        let is_full = || {
            let charged = self.charged.load(Ordering::SeqCst);
            charged > 0 && charged >= self.limit.load(Ordering::Relaxed) / 2
        };
        if self.shows_full.load(Ordering::SeqCst) == is_full() {
            return;
        }
        let owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever changes it meanwhile sees what is shown, or is seen here.
        while self.shows_full.load(Ordering::SeqCst) != is_full() {
            let full = !self.shows_full.fetch_xor(true, Ordering::SeqCst);
            if let Some(socket) = *owner {
                socket.show_room(!full);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<S>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Receiver> fmt::Debug for PacedQueue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PacedQueue")
            .field("charged", &self.charged)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
