//! Connections that are over and that nobody has: what is left of them goes while a call polls in vain, and of some with each call that
//! makes a socket. So connections that come and go cost no switch to the internal thread, which ends the others after a while.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::sockets::stack::Stack;
use crate::tcp::{Globals, TcpSocket, TcpStack};

/// So many a call that makes a socket: more than come by one.
const AT_ONCE: usize = 4;

/// A list of them. Those that the internal thread has ended are still in it; their objects may be in use again.
pub(super) struct Reaper<S: Stack> {
    sockets: Mutex<Vec<&'static TcpSocket<S>>>,
    has_some: AtomicBool,
}

impl<S: Stack> Reaper<S> {
    pub(super) fn new() -> Self {
        Self {
            sockets: Mutex::default(),
            has_some: AtomicBool::new(false),
        }
    }

    pub(super) fn add(&self, socket: &'static TcpSocket<S>) {
        self.sockets().push(socket);
        self.has_some.store(true, Ordering::Relaxed);
    }

    /// Whether there are some.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Relaxed)
    }

    /// Takes the one that was added last: its memory is in the cache.
    fn next(&self) -> Option<&'static TcpSocket<S>> {
        if !self.has_some() {
            return None;
        }
        let mut sockets = self.sockets();
        let next = sockets.pop();
        self.has_some.store(!sockets.is_empty(), Ordering::Relaxed);
        next
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<&'static TcpSocket<S>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Stack> fmt::Debug for Reaper<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reaper").finish_non_exhaustive()
    }
}

/// Ends some of them; objects that nobody uses any more go to `give`. Under the control lock.
pub(crate) fn end_some<S: TcpStack>(
    globals: &Globals<S>,
    mut give: impl FnMut(&'static TcpSocket<S>),
) {
    for _ in 0..AT_ONCE {
        end_one(globals, &mut give);
    }
}

/// Ends one of them, in the same way.
pub(crate) fn end_one<S: TcpStack>(globals: &Globals<S>, give: impl FnOnce(&'static TcpSocket<S>)) {
    if let Some(socket) = globals.ended.next()
        && socket.end_listed()
    {
        give(socket);
    }
}
