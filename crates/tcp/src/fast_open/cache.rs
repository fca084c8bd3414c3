//! What a client remembers of servers (RFC 7413 §4.1.3), and of networks that do not let Fast Open
//! through (§4.1.3.1).

use core::net::IpAddr;
use core::time::Duration;
use std::collections::HashMap;

use super::{FastOpen, FastOpenModes};
use crate::Instant;

/// Cookies by the server's address, as Linux's `tcp_metrics` has them.
#[derive(Debug)]
pub struct FastOpenCache {
    entries: HashMap<IpAddr, Entry>,
    /// The most servers to remember; beyond them the one least recently used is forgotten.
    capacity: usize,
    /// Uses of the cache so far, to tell what was used last.
    clock: u64,
    /// Times in a row that a network has swallowed a connection because of Fast Open, and when it
    /// last did.
    black_holes: u32,
    last_black_hole_at: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    cookie: Option<FastOpen>,
    /// The MSS that the server announced.
    mss: Option<u16>,
    experiment: Experiment,
    used_at: u64,
}

/// Whether the experimental form of the option was tried on a server that does not answer the
/// other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Experiment {
    #[default]
    Untried,
    Next,
    /// It was, without success: from here on the standard form again.
    Over,
}

/// How to begin a connection; for
/// [`Connection::attempt_fast_open`](crate::Connection::attempt_fast_open).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenAttempt {
    /// The SYN's option.
    pub option: Option<FastOpen>,
    /// Data may go with the SYN.
    pub sends_data: bool,
    /// What the server announced last time.
    pub mss: Option<u16>,
    /// A success ends the suspicion against the network.
    pub is_check: bool,
}

/// What a connection that was begun with an attempt has learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenLesson {
    /// The SYN-ACK came.
    pub(crate) is_answered: bool,
    /// The MSS it announced.
    pub(crate) mss: Option<u16>,
    /// The cookie it brought.
    pub(crate) cookie: Option<FastOpen>,
    /// A cookie was asked for, and was not given; the request had the experimental form.
    pub(crate) refused: Option<bool>,
    /// Timeouts in a row, as if the network had swallowed everything since the SYN.
    pub(crate) is_black_hole: bool,
    /// Data came back on a connection that was to show that the network is well.
    pub(crate) is_cleared: bool,
}

impl FastOpenCache {
    /// For up to `capacity` servers.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            capacity: capacity.max(1),
            clock: 0,
            black_holes: 0,
            last_black_hole_at: Instant::ZERO,
        }
    }

    /// How to begin a connection to `server` (`tcp_fastopen_cookie_check`). `is_cookieless` is
    /// `TCP_FASTOPEN_NO_COOKIE`, `pause` `tcp_fastopen_blackhole_timeout_sec`.
    pub fn attempt(
        &mut self,
        now: Instant,
        server: IpAddr,
        modes: FastOpenModes,
        is_cookieless: bool,
        pause: Duration,
    ) -> FastOpenAttempt {
        self.clock = self.clock.saturating_add(1);
        let clock = self.clock;
        let entry = self.entries.get_mut(&server).map(|entry| {
            entry.used_at = clock;
            *entry
        });
        let entry = entry.unwrap_or_default();
        let plain = FastOpenAttempt {
            option: None,
            sends_data: false,
            mss: entry.mss,
            is_check: self.black_holes > 0 && !pause.is_zero(),
        };
        if self.is_paused(now, pause) {
            // As Linux: then a cookie is not even asked for.
            return FastOpenAttempt {
                is_check: false,
                ..plain
            };
        }
        if is_cookieless || modes.client_without_cookie {
            return FastOpenAttempt {
                sends_data: true,
                ..plain
            };
        }
        let is_experimental = entry.experiment == Experiment::Next;
        FastOpenAttempt {
            option: entry
                .cookie
                .or_else(|| Some(FastOpen::request(is_experimental))),
            sends_data: entry.cookie.is_some(),
            ..plain
        }
    }

    /// Takes what [`Connection::take_fast_open_lesson`](crate::Connection::take_fast_open_lesson)
    /// gave (`tcp_fastopen_cache_set`).
    pub fn learn(&mut self, now: Instant, server: IpAddr, lesson: &FastOpenLesson) {
        if lesson.is_black_hole {
            self.black_holes = self.black_holes.saturating_add(1);
            self.last_black_hole_at = now;
        }
        if lesson.is_cleared {
            self.black_holes = 0;
        }
        if !lesson.is_answered {
            return;
        }
        self.make_room(server);
        self.clock = self.clock.saturating_add(1);
        let entry = self.entries.entry(server).or_default();
        entry.used_at = self.clock;
        entry.mss = lesson.mss.or(entry.mss);
        if lesson.cookie.is_some() {
            entry.cookie = lesson.cookie;
        } else if let Some(was_experimental) = lesson.refused
            && entry.cookie.is_none()
        {
            let tried = if was_experimental {
                Experiment::Over
            } else {
                Experiment::Next
            };
            entry.experiment = entry.experiment.max(tried);
        }
    }

    /// `ip tcp_metrics flush`
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// RFC 7413 §4.1.3.1; twice as long each time (`tcp_fastopen_active_should_disable`).
    fn is_paused(&self, now: Instant, pause: Duration) -> bool {
        if pause.is_zero() || self.black_holes == 0 {
            return false;
        }
        let doublings = (self.black_holes.saturating_sub(1)).min(MAX_DOUBLINGS);
        now.saturating_since(self.last_black_hole_at) < pause.saturating_mul(1 << doublings)
    }

    fn make_room(&mut self, server: IpAddr) {
        if self.entries.len() < self.capacity || self.entries.contains_key(&server) {
            return;
        }
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used_at);
        if let Some(oldest) = oldest.map(|(server, _)| *server) {
            self.entries.remove(&oldest);
        }
    }
}

const MAX_DOUBLINGS: u32 = 6;
