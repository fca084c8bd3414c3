//! What the library has in one process.
//!
//! It lies in memory that a child finds wiped (`MADV_WIPEONFORK`), whatever made the child: so no
//! child takes its parent's engine for its own, not even one of clone(2), which runs no handlers,
//! or in another library's handler that runs before ours. A child of `vfork(2)` has its parent's
//! memory and is told from it by its process id.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use engine::{Engine, NetconfNetwork};
use libc::c_int;

use crate::devices::Devices;
use crate::guard;

/// The back-ends of this library.
pub(crate) type Device = Devices;

/// All-zero, it is that of a process that has just been forked.
#[repr(C)]
struct ProcessState {
    engine: AtomicPtr<Engine<Device>>,
    network: AtomicPtr<NetconfNetwork>,
    /// The process; 0: nobody has looked around in it yet.
    pid: AtomicI32,
    /// [`NOT_STARTED`], [`STARTING`] or [`STARTED`].
    start: AtomicU32,
    is_watched: AtomicBool,
    /// Signals that end it have stand-ins.
    is_prepared_for_death: AtomicBool,
    is_looking_around: AtomicBool,
    /// A thread installs a signal handler.
    is_installing: AtomicBool,
}

const NOT_STARTED: u32 = 0;
const STARTING: u32 = 1;
const STARTED: u32 = 2;

/// Serves where no memory can be wiped; the handler of fork(2) does it then.
static UNWIPED: ProcessState = ProcessState {
    engine: AtomicPtr::new(ptr::null_mut()),
    network: AtomicPtr::new(ptr::null_mut()),
    pid: AtomicI32::new(0),
    start: AtomicU32::new(NOT_STARTED),
    is_watched: AtomicBool::new(false),
    is_prepared_for_death: AtomicBool::new(false),
    is_looking_around: AtomicBool::new(false),
    is_installing: AtomicBool::new(false),
};
static LIFE: AtomicPtr<ProcessState> = AtomicPtr::new((&raw const UNWIPED).cast_mut());

/// The engine of this process, in memory that children have a copy of.
static LATEST: AtomicPtr<Engine<Device>> = AtomicPtr::new(ptr::null_mut());
/// The engine that this process has no use for any more, or an ancestor had.
static RETIRED: AtomicPtr<Engine<Device>> = AtomicPtr::new(ptr::null_mut());
/// The engine of the nearest ancestor that had one, to which the older ones are linked.
static INHERITED: AtomicPtr<Engine<Device>> = AtomicPtr::new(ptr::null_mut());

#[inline]
fn state() -> &'static ProcessState {
    // SAFETY: never null, and what it points at is never unmapped.
    unsafe { &*LIFE.load(Ordering::Relaxed) }
}

/// The engine of this process.
#[inline]
pub(crate) fn engine() -> Option<&'static Engine<Device>> {
    let engine = engine_at_hand();
    if engine.is_none() {
        look_around(state());
    }
    engine
}

/// The same for callers that may hold any lock of the program's: a child that has not looked around
/// has none.
#[inline]
pub(crate) fn engine_at_hand() -> Option<&'static Engine<Device>> {
    // SAFETY: null, or a leaked box (see `start`).
    unsafe { state().engine.load(Ordering::Acquire).as_ref() }
}

/// The snapshot of the network that the engine of this process uses.
pub(crate) fn network() -> Option<&'static NetconfNetwork> {
    // SAFETY: null, or a leaked box (see `start`).
    unsafe { state().network.load(Ordering::Acquire).as_ref() }
}

/// The engine is out of use in this process, and in those that are forked from here on. What
/// ancestors have of their sockets is the kernel's by now.
pub(crate) fn retire() {
    LATEST.store(ptr::null_mut(), Ordering::Release);
    INHERITED.store(ptr::null_mut(), Ordering::Release);
    let engine = state().engine.swap(ptr::null_mut(), Ordering::AcqRel);
    RETIRED.store(engine, Ordering::Release);
}

/// The engine that was retired in this process.
pub(crate) fn retired() -> Option<&'static Engine<Device>> {
    // SAFETY: null, or a leaked box (see `start`).
    unsafe { RETIRED.load(Ordering::Acquire).as_ref() }
}

/// Whether this process was forked from one that had an engine.
#[inline]
pub(crate) fn has_ancestors() -> bool {
    !INHERITED.load(Ordering::Relaxed).is_null()
}

/// The engines of the ancestors, nearest first.
pub(crate) fn ancestors() -> impl Iterator<Item = &'static Engine<Device>> {
    // SAFETY: null, or a leaked box.
    let nearest = unsafe { INHERITED.load(Ordering::Acquire).as_ref() };
    std::iter::successors(nearest, |engine| engine.older())
}

/// Whether we run in a child of `vfork(2)`, which shares our memory.
pub(crate) fn is_vfork_child() -> bool {
    let state = state();
    look_around(state);
    let pid = state.pid.load(Ordering::Relaxed);
    pid != 0 && pid != stats::process_id()
}

/// The first caller starts the engine with `make`; others wait for it.
pub(crate) fn start(make: impl FnOnce() -> Option<(Box<Engine<Device>>, NetconfNetwork)>) {
    if is_vfork_child() {
        return;
    }
    let state = state();
    loop {
        let first = state.start.compare_exchange(
            NOT_STARTED,
            STARTING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        match first {
            Ok(_) => break,
            Err(STARTED) => return,
            // SAFETY: sched_yield has no preconditions.
            Err(_) => drop(unsafe { libc::sched_yield() }),
        }
    }
    let _ended = Ended(state);
    if let Some((engine, network)) = make() {
        let engine = Box::into_raw(engine);
        state
            .network
            .store(Box::into_raw(Box::new(network)), Ordering::Release);
        LATEST.store(engine, Ordering::Release);
        state.engine.store(engine, Ordering::Release);
    }
}

/// The start has ended, also if it panicked.
struct Ended(&'static ProcessState);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.start.store(STARTED, Ordering::Release);
    }
}

/// `true` for the first caller in this process.
pub(crate) fn is_first_watcher() -> bool {
    !state().is_watched.swap(true, Ordering::Relaxed)
}

/// `true` for the first caller in this process.
pub(crate) fn is_first_to_prepare_for_death() -> bool {
    let prepared = &state().is_prepared_for_death;
    !prepared.load(Ordering::Relaxed) && !prepared.swap(true, Ordering::Relaxed)
}

/// Waits until no other thread of this process installs a signal handler. A forked child finds that
/// nobody does.
pub(crate) fn begin_installation() {
    while state().is_installing.swap(true, Ordering::Acquire) {
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
}

/// The calling thread has installed one.
pub(crate) fn end_installation() {
    state().is_installing.store(false, Ordering::Release);
}

/// At the process's beginning, once.
pub(crate) fn begin() {
    if let Some(wiped) = map_wiped() {
        LIFE.store(wiped.as_ptr(), Ordering::Release);
    }
    state().pid.store(stats::process_id(), Ordering::Relaxed);
    // SAFETY: the function lives as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), None, Some(forked)) };
}

fn map_wiped() -> Option<NonNull<ProcessState>> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let len = size_of::<ProcessState>();
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches no existing memory.
    let address = unsafe { libc::mmap(ptr::null_mut(), len, access, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the range is the mapping made above.
    let is_wiped = unsafe { libc::madvise(address, len, libc::MADV_WIPEONFORK) } == 0;
    NonNull::new(address.cast()).filter(|_| is_wiped)
}

extern "C" fn before_fork() {
    if let Some(engine) = engine() {
        let _ = guard::contained(|| engine.before_fork());
    }
}

/// In the child. The library's descriptors must not stay open in it until it happens to use a
/// socket.
extern "C" fn forked() {
    let state = state();
    if ptr::eq(state, &raw const UNWIPED) {
        state.engine.store(ptr::null_mut(), Ordering::Relaxed);
        state.network.store(ptr::null_mut(), Ordering::Relaxed);
        state.pid.store(0, Ordering::Relaxed);
        state.start.store(NOT_STARTED, Ordering::Relaxed);
        state.is_watched.store(false, Ordering::Relaxed);
        state.is_prepared_for_death.store(false, Ordering::Relaxed);
        state.is_looking_around.store(false, Ordering::Relaxed);
        state.is_installing.store(false, Ordering::Relaxed);
    }
    look_around(state);
}

/// A child that looks around for the first time makes its parent's engine one of its ancestors'.
#[inline]
fn look_around(state: &'static ProcessState) {
    if state.pid.load(Ordering::Acquire) == 0 {
        look_around_first(state);
    }
}

#[cold]
fn look_around_first(state: &'static ProcessState) {
    if !state.is_looking_around.load(Ordering::Relaxed) {
        guard::process_is_new();
    }
    // A signal handler must not find it half done.
    if guard::contained(|| inherit(state)).is_err() {
        inherit(state);
    }
}

fn inherit(state: &'static ProcessState) {
    if state.is_looking_around.swap(true, Ordering::AcqRel) {
        // Another thread is at it, and will be done in a moment.
        return;
    }
    let parents = LATEST.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or a leaked box.
    if let Some(engine) = unsafe { parents.as_ref() } {
        engine.become_inherited(INHERITED.load(Ordering::Relaxed));
        INHERITED.store(parents, Ordering::Release);
    }
    state.pid.store(stats::process_id(), Ordering::Release);
}

pub(crate) fn thread_id() -> c_int {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as c_int }
}
