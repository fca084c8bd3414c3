//! How others call the internal thread, and how far it has come.

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use descriptors::OwnDescriptor;
use libc::c_int;
use sys::ProgramEnd;

/// The eventfd that wakes it, once it runs.
#[derive(Debug, Default)]
pub struct InternalThread {
    called: OnceLock<OwnDescriptor>,
    /// It runs, or will as soon as it gets a processor.
    is_started: AtomicBool,
    /// How often it has begun anew to look what there is to do; 0: it does not run.
    rounds: AtomicU32,
    has_ended: AtomicBool,
    /// 0: it does not run yet.
    thread: AtomicI32,
    /// The program's own threads have ended before it.
    program_end: Mutex<Option<ProgramEnd>>,
}

impl InternalThread {
    /// It is about to run.
    pub fn starts(&self) {
        self.is_started.store(true, Ordering::Release);
    }

    /// Whether it has been started, and perhaps does not run yet.
    pub fn is_started(&self) -> bool {
        self.is_started.load(Ordering::Acquire)
    }

    /// The internal thread runs from here on; `fd` calls it.
    pub fn begin(&self, fd: OwnDescriptor) {
        self.thread.store(sys::thread_id(), Ordering::Relaxed);
        self.called.get_or_init(|| fd);
    }

    /// Its number, while it runs and can be called.
    pub fn id(&self) -> Option<libc::pid_t> {
        self.runs().then(|| self.thread.load(Ordering::Relaxed))
    }

    /// What calls it.
    pub fn fd(&self) -> Option<c_int> {
        self.called.get().map(AsRawFd::as_raw_fd)
    }

    #[inline]
    pub fn runs(&self) -> bool {
        self.called.get().is_some() && !self.has_ended.load(Ordering::Relaxed)
    }

    /// Has the internal thread look what there is to do. Async-signal-safe. Nothing happens if it
    /// does not run.
    pub fn call(&self) {
        if let Some(fd) = self.fd() {
            sys::signal_eventfd(fd);
        }
    }

    /// In the internal thread: it has been called.
    pub fn answer(&self) {
        if let Some(fd) = self.fd() {
            sys::drain_eventfd(fd);
        }
    }

    /// In the internal thread: from here on no number of a descriptor is known that was read
    /// before.
    pub fn begins_round(&self) {
        self.rounds.fetch_add(1, Ordering::SeqCst);
    }

    /// The internal thread ends.
    pub fn ends(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.rounds.store(0, Ordering::Relaxed);
    }

    /// In the internal thread: the program's own threads have ended.
    pub fn program_ends(&self, end: Option<ProgramEnd>) {
        *self.of_program_end() = end;
    }

    /// How, if they have.
    pub fn program_end(&self) -> Option<ProgramEnd> {
        *self.of_program_end()
    }

    fn of_program_end(&self) -> MutexGuard<'_, Option<ProgramEnd>> {
        self.program_end
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How many rounds it has begun; 0: it does not run.
    pub fn rounds(&self) -> u32 {
        self.rounds.load(Ordering::SeqCst)
    }
}
