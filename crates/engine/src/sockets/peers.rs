//! Processes of this host with which this one shares memory, and the connections with them.
//!
//! What a peer has written it says in a doorbell, one for each pair of processes. Whoever waits for
//! sockets looks there first ([`Peers::take_news`]), and says before it sleeps that it does
//! ([`Peers::sleeps`]): then the peer writes to the eventfd that the sleep watches.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use descriptors::OwnDescriptor;
use libc::c_int;
use links::internal_thread::InternalThread;
use shm::{Arena, Channel, Hostile, Message, SLOTS, Side, Slot};

/// Processes that memory is shared with at most: each has a line of the cache that is looked at.
const PEERS_MAX: usize = 64;

/// What the internal thread is asked for.
#[derive(Debug)]
pub(crate) enum PeerRequest<S> {
    /// A socket, in this life, looks for its peer.
    Find(S, u32),
    /// A socket does not look for its peer any more.
    Forget(shm::Key),
}

/// What sleepers are told by processes that memory is shared with. All of them watch one eventfd:
/// whoever empties it hears the news for all.
pub(crate) trait PeerNews: fmt::Debug + Sync {
    /// A thread is about to sleep, and takes the news once more after this.
    fn sleeps(&self);

    /// It does not sleep any more.
    fn awakes(&self);

    /// It has emptied the eventfd. No lock may be held.
    fn hear(&self);
}

/// The processes that memory is shared with.
pub(crate) struct Peers<S> {
    /// A connection may come to have one.
    is_wanted: AtomicBool,
    /// There are some.
    is_active: AtomicBool,
    known: RwLock<Vec<Arc<Peer<S>>>>,
    /// By which all of them wake threads of this process that sleep.
    wake: OnceLock<OwnDescriptor>,
    /// Threads that do.
    sleepers: AtomicU32,
    /// Tells sockets of the news.
    hear: OnceLock<Box<dyn Fn() + Send + Sync>>,
    requests: Mutex<Vec<PeerRequest<S>>>,
    internal_thread: Arc<InternalThread>,
}

impl<S: Copy> Peers<S> {
    pub(crate) fn new(internal_thread: Arc<InternalThread>) -> Self {
        Self {
            is_wanted: AtomicBool::new(false),
            is_active: AtomicBool::new(false),
            known: RwLock::default(),
            wake: OnceLock::new(),
            sleepers: AtomicU32::new(0),
            hear: OnceLock::new(),
            requests: Mutex::default(),
            internal_thread,
        }
    }

    /// A connection may come to share memory: the internal thread is to run.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether one may.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Whether memory is shared with anybody.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// What wakes threads of this process.
    pub(crate) fn wake_fd(&self) -> Option<c_int> {
        self.is_active()
            .then(|| self.wake.get().map(AsRawFd::as_raw_fd))
            .flatten()
    }

    /// The same, made if there is none. `None`: there is no descriptor left.
    pub(crate) fn wake(&self) -> Option<&OwnDescriptor> {
        if self.wake.get().is_none()
            && let Ok(eventfd) = sys::eventfd()
        {
            let _ = self.wake.set(eventfd);
        }
        self.wake.get()
    }

    /// One more. `false`: there are too many.
    pub(crate) fn add(&self, peer: Arc<Peer<S>>) -> bool {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PEERS_MAX {
            return false;
        }
        known.push(peer);
        self.is_active.store(true, Ordering::Release);
        true
    }

    /// One has ended.
    pub(crate) fn remove(&self, peer: &Arc<Peer<S>>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|other| !Arc::ptr_eq(other, peer));
        self.is_active.store(!known.is_empty(), Ordering::Release);
    }

    /// Calls `tell` with each socket of which a peer has news, and its life.
    #[inline]
    pub(crate) fn take_news(&self, tell: impl FnMut(S, u32)) {
        if self.is_active() {
            self.take_news_of_some(tell);
        }
    }

    fn take_news_of_some(&self, mut tell: impl FnMut(S, u32)) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut told = Vec::new();
        for peer in &*known {
            let doorbell = peer.arena.doorbell(peer.side);
            if !doorbell.has_rung() {
                continue;
            }
            doorbell.take(|slot| {
                let user = peer.users().get(&slot).and_then(|it| it.socket);
                told.extend(user);
            });
        }
        drop(known);
        for (socket, generation) in told {
            tell(socket, generation);
        }
    }

    /// The news are told by this from here on.
    pub(crate) fn heard_by(&self, hear: impl Fn() + Send + Sync + 'static) {
        let _ = self.hear.set(Box::new(hear));
    }

    /// Tells sockets of the news. No lock may be held.
    pub(crate) fn tell_news(&self) {
        if let Some(hear) = self.hear.get() {
            hear();
        }
    }

    /// Peers are to wake who sleeps.
    fn ask_to_be_woken(&self) {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known
            .iter()
            .for_each(|peer| peer.arena.doorbell(peer.side).sleeps());
    }

    /// Asks the internal thread for something.
    pub(crate) fn ask(&self, request: PeerRequest<S>) {
        lock(&self.requests).push(request);
        self.internal_thread.call();
    }

    /// In the internal thread: what it is asked for.
    pub(crate) fn requests(&self) -> Vec<PeerRequest<S>> {
        std::mem::take(&mut *lock(&self.requests))
    }
}

impl<S: Copy + Send + Sync> PeerNews for Peers<S> {
    fn sleeps(&self) {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        self.ask_to_be_woken();
    }

    fn awakes(&self) {
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    fn hear(&self) {
        // Others may not have seen that it rang, and a peer that has woken somebody does not do so
        // again.
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.ask_to_be_woken();
        }
        self.tell_news();
    }
}

impl<S> fmt::Debug for Peers<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").finish_non_exhaustive()
    }
}

/// Who has a slot.
#[derive(Debug)]
pub(crate) struct User<S> {
    /// The socket, and its life. `None`: it has left the slot.
    pub(crate) socket: Option<(S, u32)>,
    /// The peer has left it, too.
    pub(crate) is_left_there: bool,
}

/// A process that memory is shared with.
pub(crate) struct Peer<S> {
    arena: Arena,
    side: Side,
    channel: Channel,
    /// By which its sleepers are woken, once it has said so.
    wake: OnceLock<OwnDescriptor>,
    users: Mutex<HashMap<u32, User<S>>>,
    is_gone: AtomicBool,
}

impl<S: Copy> Peer<S> {
    pub(crate) fn new(arena: Arena, side: Side, channel: Channel) -> Self {
        Self {
            arena,
            side,
            channel,
            wake: OnceLock::new(),
            users: Mutex::default(),
            is_gone: AtomicBool::new(false),
        }
    }

    pub(crate) fn channel(&self) -> &Channel {
        &self.channel
    }

    /// Which of the two this process is.
    #[inline]
    pub(crate) fn side(&self) -> Side {
        self.side
    }

    /// It is woken by this.
    pub(crate) fn wake_by(&self, eventfd: OwnDescriptor) {
        let _ = self.wake.set(eventfd);
    }

    /// Whether it can be woken: before that nothing is written for it.
    pub(crate) fn can_be_woken(&self) -> bool {
        self.wake.get().is_some()
    }

    /// The memory of a connection.
    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> Result<Slot<'_>, Hostile> {
        self.arena.slot(slot).ok_or(Hostile)
    }

    /// There is news for it in a slot.
    #[inline]
    pub(crate) fn ring(&self, slot: u32) {
        if self.arena.doorbell(self.side.other()).ring(slot)
            && let Some(wake) = self.wake.get()
        {
            sys::signal_eventfd(wake.as_raw_fd());
        }
    }

    /// It has ended.
    pub(crate) fn goes(&self) {
        self.is_gone.store(true, Ordering::Release);
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
    }

    /// Slots that this process gives away, or the peer.
    fn is_ours(&self, slot: u32) -> bool {
        (slot < SLOTS / 2) == (self.side == Side::First)
    }

    /// A slot that nobody has. `None`: there is none.
    pub(crate) fn take_free(&self, socket: S, generation: u32) -> Option<u32> {
        let mut users = self.users();
        let slot = (0..SLOTS).find(|slot| self.is_ours(*slot) && !users.contains_key(slot))?;
        users.insert(slot, User::of(socket, generation));
        drop(users);
        let memory = self.arena.slot(slot)?;
        for side in [Side::First, Side::Second] {
            memory.direction(side).reset();
        }
        Some(slot)
    }

    /// The peer has given a slot to a connection. `false`: it cannot.
    pub(crate) fn take_given(&self, slot: u32, socket: S, generation: u32) -> bool {
        let mut users = self.users();
        let is_free = slot < SLOTS && !self.is_ours(slot) && !users.contains_key(&slot);
        if is_free {
            users.insert(slot, User::of(socket, generation));
        }
        is_free
    }

    /// This process does not use a slot any more.
    pub(crate) fn leave(&self, slot: u32) {
        let mut users = self.users();
        if let Some(user) = users.get_mut(&slot) {
            user.socket = None;
            if user.is_left_there || !self.is_ours(slot) {
                users.remove(&slot);
            }
        }
        drop(users);
        let _ = self.channel.send(&Message::Left { slot }, &[]);
    }

    /// The peer does not use it any more.
    pub(crate) fn left_there(&self, slot: u32) {
        let mut users = self.users();
        if let Some(user) = users.get_mut(&slot) {
            user.is_left_there = true;
            if user.socket.is_none() {
                users.remove(&slot);
            }
        }
    }

    /// The socket that has a slot, and its life.
    pub(crate) fn user(&self, slot: u32) -> Option<(S, u32)> {
        self.users().get(&slot)?.socket
    }

    /// All of them.
    pub(crate) fn all_users(&self) -> Vec<(S, u32)> {
        self.users()
            .values()
            .filter_map(|user| user.socket)
            .collect()
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, User<S>>> {
        lock(&self.users)
    }
}

impl<S> User<S> {
    fn of(socket: S, generation: u32) -> Self {
        Self {
            socket: Some((socket, generation)),
            is_left_there: false,
        }
    }
}

impl<S> fmt::Debug for Peer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("side", &self.side)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
