//! What a thread has while it sleeps: where it is registered, and what it leads or follows.
//!
//! It is kept in the thread, not in the call. A thread that is cancelled in its sleep gives it back
//! when it ends, and one whose signal handler leaves with `longjmp` when it sleeps next.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use links::wait::{WaitQueue, Waiter, woken_here};
use links::watch::Rings;

use crate::sockets::peers::PeerNews;
use crate::sockets::seats::Seat;

/// So often in a row another thread has received what has woken the leader: it is no use.
const IN_VAIN_MAX: u32 = 4;

/// What a sleeper has.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// `None`: the seat's.
    pub(crate) waiter: Option<Arc<Waiter>>,
    pub(crate) queues: Vec<&'static WaitQueue>,
    pub(crate) led: Vec<&'static dyn Rings>,
    pub(crate) followed: Vec<&'static dyn Rings>,
    pub(crate) seat: Option<Seat>,
    /// By whose news it is woken, too.
    pub(crate) peers: Option<&'static dyn PeerNews>,
}

impl Held {
    /// The thread is awake. `is_readable`: its eventfd was seen to be.
    pub(crate) fn give_back(self, is_readable: bool) {
        let waiter = self.seat.as_ref().map(|seat| &seat.waiter);
        if let Some(waiter) = waiter.or(self.waiter.as_ref()) {
            self.queues.iter().for_each(|queue| queue.remove(waiter));
        }
        let has_seat = self.seat.is_some();
        if let Some(seat) = self.seat {
            Seat::give(seat, is_readable);
        }
        if let Some(waiter) = self.waiter {
            Waiter::give(waiter, is_readable);
        }
        if let Some(peers) = self.peers {
            peers.awakes();
        }
        self.led.iter().for_each(|rings| rings.lead().leave());
        self.followed.iter().for_each(|rings| rings.lead().parts());
        if has_seat {
            // A packet may have woken nobody but this thread, and be for another.
            let waiting = self.led.iter().filter(|rings| rings.have_waiting());
            waiting.for_each(|rings| {
                rings.receive_all();
            });
        }
    }
}

/// The place of it in the thread.
struct Place(RefCell<Option<Box<Held>>>);

impl Drop for Place {
    fn drop(&mut self) {
        give_back(self.0.take());
    }
}

thread_local! {
    static PLACE: Place = const { Place(RefCell::new(None)) };
    /// How many others the thread had woken when its last sleep ended.
    static WOKEN_BEFORE: Cell<u32> = const { Cell::new(0) };
    /// How often in a row it was woken for what another thread has received.
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
}

/// What was left behind.
fn give_back(held: Option<Box<Held>>) {
    if let Some(held) = held {
        // A handler of the program's may use the same sockets.
        sys::without_signals(|| {
            let _ = catch_unwind(AssertUnwindSafe(|| held.give_back(true)));
        });
    }
}

/// Keeps it until [`take`]. `Err`: the thread is about to end.
pub(crate) fn keep(held: Box<Held>) -> Result<(), Box<Held>> {
    let mut held = Some(held);
    let _ = PLACE.try_with(|place| give_back(place.0.replace(held.take())));
    held.map_or(Ok(()), Err)
}

/// Shows it, where it is kept: in the call, or in the thread.
pub(crate) fn with<R>(own: &mut Option<Box<Held>>, look: impl FnOnce(&mut Held) -> R) -> Option<R> {
    match own {
        Some(held) => Some(look(held)),
        None => PLACE
            .try_with(|place| place.0.borrow_mut().as_deref_mut().map(look))
            .ok()
            .flatten(),
    }
}

pub(crate) fn take() -> Option<Box<Held>> {
    PLACE.try_with(|place| place.0.take()).ok().flatten()
}

/// A sleep has ended. `in_vain`: a packet has woken the thread, and was not there any more.
pub(crate) fn awakes(in_vain: bool) {
    let _ = WOKEN_BEFORE.try_with(|before| before.set(woken_here()));
    let _ = IN_VAIN.try_with(|count| count.set(if in_vain { count.get() + 1 } else { 0 }));
}

/// The thread sleeps once more in one call. Whether what has woken it was for others: one of them
/// is to lead.
pub(crate) fn makes_way() -> bool {
    let woke = WOKEN_BEFORE.try_with(Cell::get).unwrap_or(0) != woken_here();
    let in_vain = IN_VAIN.try_with(Cell::get).unwrap_or(0);
    woke || in_vain >= IN_VAIN_MAX
}

/// In a forked child: what the thread had belongs to the parent.
pub(crate) fn forget() {
    let _ = ManuallyDrop::new(take());
}
