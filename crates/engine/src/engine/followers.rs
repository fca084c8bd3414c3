//! Packets for threads that sleep while the one that watches for them is awake (`links::lead`).

use std::time::Duration;

use dev_core::Backend;
use links::wait::woken_here;
use links::watch;
use tcp::Instant;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task, Watched, is_lost};

/// How long packets are left to those who are awake after the first one that nobody slept for, and
/// after many.
const NAP_MIN: Duration = Duration::from_micros(100);
const NAP_MAX: Duration = Duration::from_millis(1);
/// How often it is looked without any sign of a packet.
const IDLE_INTERVAL: Duration = Duration::from_millis(500);

/// Receives them.
pub(super) struct Followers<B: Backend> {
    engine: &'static Engine<B>,
    naps: Naps,
}

/// While a thread that is awake receives by itself what comes, the watch only costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Naps {
    naps: bool,
    /// Looks in a row that have woken nobody.
    in_vain: u32,
}

impl Naps {
    /// After a look; `on_packet`: a packet was the reason for it. Returns how long to nap.
    fn looked(&mut self, has_woken: bool, on_packet: bool) -> Option<Duration> {
        if has_woken {
            self.in_vain = 0;
        }
        self.naps = on_packet && !has_woken;
        self.naps.then(|| {
            let nap = NAP_MIN * (1 << self.in_vain.min(4));
            self.in_vain = self.in_vain.saturating_add(1);
            nap.min(NAP_MAX)
        })
    }
}

impl<B: Backend> Followers<B> {
    pub(super) fn new(engine: &'static Engine<B>) -> Self {
        Self {
            engine,
            naps: Naps::default(),
        }
    }
}

impl<B: Backend> Task for Followers<B> {
    fn watch(&self, watched: &mut Watched) {
        if !self.naps.naps
            && let Some(fd) = watch::fd()
        {
            watched.add(fd, libc::POLLIN);
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        if is_lost(watched) {
            // Every sleeper watches for itself.
            watch::ends();
        }
        let on_packet = watched.iter().any(|it| it.revents != 0);
        let before = woken_here();
        // A leader that was woken by a packet before this one comes by itself.
        self.engine.links.receive_for_followers(on_packet);
        let has_woken = woken_here() != before;
        match self.naps.looked(has_woken, on_packet) {
            Some(nap) => Next::In(nap),
            None => Next::In(IDLE_INTERVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_nobody_sleeps_for_are_looked_at_ever_less() {
        let mut naps = Naps::default();
        assert_eq!(naps.looked(true, true), None);
        let usec: Vec<_> = (0..6)
            .map(|_| {
                let nap = naps.looked(false, true).unwrap();
                assert_eq!(naps.looked(false, false), None);
                nap.as_micros()
            })
            .collect();
        assert_eq!(usec, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(naps.looked(true, false), None);
        assert_eq!(naps.looked(false, true), Some(NAP_MIN));
    }
}
