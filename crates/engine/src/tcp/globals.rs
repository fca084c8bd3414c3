//! What all TCP sockets of the process share.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use links::internal_thread::InternalThread;
use links::reason::Reason;
use links::settings;

use ::tcp::{Config, CongestionAlgorithm, Instant, SecretKey};
use dev_core::FramePool;
use sys::streams;

use crate::sockets::host::Host;
use crate::sockets::peers::Peers;
use crate::sockets::stack::Stack;
use crate::tcp::clock::now;
use crate::tcp::state::counted::Counted;
use crate::tcp::state::defaults::Defaults;
use crate::tcp::state::destroyed::Destroyed;
use crate::tcp::state::exempt::Exempt;
use crate::tcp::state::path_mtus::PathMtus;
use crate::tcp::state::reaper::Reaper;
use crate::tcp::state::reopenings::Reopenings;
use crate::tcp::state::saved_syns::SavedSyns;
use crate::tcp::state::shared_listeners::SharedListeners;
use crate::tcp::state::time_wait::Allowance;
use crate::tcp::state::timers::Timers;
use crate::tcp::state::unmatched::UnmatchedSegment;
use crate::tcp::sysctl;

/// What all TCP sockets of the process share.
pub(crate) struct Globals<S: Stack> {
    pub(super) pool: &'static FramePool,
    pub(super) segment: Arc<stats::Segment>,
    /// Processes of this host that memory is shared with.
    pub(super) peers: &'static Peers<S>,
    pub(super) path_mtus: PathMtus,
    pub(super) timers: Timers<S>,
    settings: OnceLock<Settings>,
    defaults: Mutex<Option<Defaults>>,
    /// What the user wants of streams.
    chosen: settings::Settings,
    /// Connections and listeners in user space.
    streams: Arc<AtomicU32>,
    /// Segments for ports of listeners that are of no connection here.
    unmatched: Mutex<Vec<UnmatchedSegment>>,
    /// The call with which the process has given up its rights.
    rights_went: Mutex<Option<&'static str>>,
    /// The capabilities of a thread that was seen to repair a socket.
    has_repaired_with: AtomicU64,
    time_waits: Mutex<Allowance>,
    /// Connections that are over, and that nobody has.
    pub(super) ended: Reaper<S>,
    pub(super) exempt: Exempt<S>,
    pub(super) destroyed: Destroyed,
    pub(super) shared_listeners: SharedListeners,
    pub(super) reopenings: Reopenings<S>,
    pub(super) saved_syns: SavedSyns,
}

/// More than that are lost: nobody but attackers sends so many.
const UNMATCHED_MAX: usize = 256;

/// Read when the first connection is made.
struct Settings {
    config: Arc<Config>,
    key: SecretKey,
}

impl<S: Stack> Globals<S> {
    pub(crate) fn new(
        pool: &'static FramePool,
        segment: Arc<stats::Segment>,
        internal_thread: Arc<InternalThread>,
        peers: &'static Peers<S>,
        chosen: &settings::Settings,
    ) -> Self {
        Self {
            pool,
            segment,
            peers,
            path_mtus: PathMtus::default(),
            timers: Timers::new(Arc::clone(&internal_thread)),
            settings: OnceLock::new(),
            defaults: Mutex::default(),
            chosen: *chosen,
            streams: Arc::default(),
            unmatched: Mutex::default(),
            rights_went: Mutex::default(),
            has_repaired_with: AtomicU64::new(0),
            time_waits: Mutex::new(Allowance::new(now())),
            ended: Reaper::new(),
            exempt: Exempt::new(internal_thread),
            destroyed: Destroyed::default(),
            shared_listeners: SharedListeners::default(),
            reopenings: Reopenings::new(),
            saved_syns: SavedSyns::default(),
        }
    }

    /// What sockets have on which the program has set nothing, as far as it was asked.
    pub(super) fn defaults(&self) -> MutexGuard<'_, Option<Defaults>> {
        self.defaults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a segment to the kernel. The caller has the internal thread called.
    pub(super) fn add_unmatched(&self, segment: UnmatchedSegment) {
        let mut unmatched = self
            .unmatched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if unmatched.len() < UNMATCHED_MAX {
            unmatched.push(segment);
        }
    }

    pub(super) fn take_unmatched(&self) -> Vec<UnmatchedSegment> {
        let mut unmatched = self
            .unmatched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *unmatched)
    }

    /// The descriptor by which the kernel tells of the ends of connections that are exempt from the
    /// steering, while there are some.
    pub(crate) fn ends_fd(&self) -> Option<RawFd> {
        self.exempt.events_fd()
    }

    /// In the internal thread: looks after them. `is_lost`: the descriptor is not ours any more.
    /// Returns when to look again.
    pub(crate) fn look_after_exempt(&self, host: &Host<S>, is_lost: bool) -> Option<Duration> {
        if is_lost {
            self.exempt.stop_following();
        }
        self.exempt.look_after(host)
    }

    /// The internal thread begins to look after connections.
    pub(crate) fn begin_look(&self) {
        self.timers.begin_look();
    }

    /// It has done so. Returns when it looks again, after `at_most` if that is given.
    pub(crate) fn end_look(&self, at_most: Option<Duration>) -> Option<Duration> {
        self.timers.end_look(at_most)
    }

    /// Whether one more connection may go to the kernel for TIME-WAIT. Takes that, if so.
    pub(super) fn may_wait(&self, now: Instant) -> bool {
        let mut allowance = self
            .time_waits
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        allowance.take(now)
    }

    /// Why no connection can be past the kernel, if the process may not repair the kernel's
    /// sockets, and what that is about.
    pub(super) fn no_repair(&self) -> Option<(Reason, &'static str)> {
        match self.rights_went() {
            Some(call) => Some((Reason::RightsGone, call)),
            None => (!self.may_repair()).then_some((Reason::Repair, "")),
        }
    }

    /// Whether the thread may repair sockets. To try it out takes a socket, and is done once with
    /// each set of rights.
    fn may_repair(&self) -> bool {
        let rights = HAS_RIGHTS | sys::capabilities().map_or(0, |it| it.effective);
        if self.has_repaired_with.load(Ordering::Relaxed) == rights {
            return true;
        }
        let can = can_repair();
        if can {
            self.has_repaired_with.store(rights, Ordering::Relaxed);
        }
        can
    }

    /// The call with which the process has given up its rights; `None`: it has not.
    pub(crate) fn rights_went(&self) -> Option<&'static str> {
        *self.of_rights()
    }

    /// The rights of the process go with a call, or stay after all (`None`).
    pub(crate) fn rights_go(&self, call: Option<&'static str>) {
        *self.of_rights() = call;
    }

    fn of_rights(&self) -> MutexGuard<'_, Option<&'static str>> {
        self.rights_went
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection or a listener for as long as it lives here.
    pub(super) fn counted(&self) -> Counted {
        self.counted_first().0
    }

    /// The same, and whether there was none before.
    pub(super) fn counted_first(&self) -> (Counted, bool) {
        let before = self.streams.fetch_add(1, Ordering::Relaxed);
        (Counted(Arc::clone(&self.streams)), before == 0)
    }

    /// Whether there are connections or listeners in user space.
    pub(crate) fn has_streams(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    /// Whether a connection's time has come.
    pub(crate) fn has_expired_timer(&self) -> bool {
        self.timers.next_expiry().is_some_and(|at| at <= now())
    }

    fn settings(&self) -> &Settings {
        self.settings.get_or_init(|| {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&sys::random().to_ne_bytes());
            key[8..].copy_from_slice(&sys::random().to_ne_bytes());
            Settings {
                config: Arc::new(self.chosen_config(sysctl::config())),
                key: SecretKey::new(key),
            }
        })
    }

    /// What the user wants, and the system for the rest.
    fn chosen_config(&self, systems: Config) -> Config {
        Config {
            syn_rate_max: self.chosen.tcp_max_syn_rate,
            timestamps: self.chosen.tcp_timestamps.unwrap_or(systems.timestamps),
            always_quick: self.chosen.tcp_quickack,
            ..systems
        }
    }

    /// The congestion control of streams for which the program has chosen none. `None`: the
    /// system's.
    pub(super) fn congestion(&self) -> Option<CongestionAlgorithm> {
        let number = self.chosen.tcp_cc_algo?;
        CongestionAlgorithm::from_vma_value(number)
    }

    pub(super) fn config(&self) -> Arc<Config> {
        Arc::clone(&self.settings().config)
    }

    pub(super) fn key(&self) -> SecretKey {
        self.settings().key
    }
}

impl<S: Stack> fmt::Debug for Globals<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Globals").finish_non_exhaustive()
    }
}

/// Beside those of a thread, which may have none: it is no capability's.
const HAS_RIGHTS: u64 = 1 << 63;

/// Whether the kernel lets the process repair sockets: it has `CAP_NET_ADMIN`, or a broker has.
pub(crate) fn can_repair() -> bool {
    streams::new_socket(libc::AF_INET, libc::SOCK_CLOEXEC).is_ok_and(|fd| {
        let can = streams::repair_begins(fd).is_ok();
        streams::close(fd);
        can
    })
}
