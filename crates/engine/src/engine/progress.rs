//! Packets that no call of the program takes in (`VMA_PROGRESS_ENGINE_*`): peers wait for
//! acknowledgements and handshakes, and a ring that is full loses what comes.

use std::time::Duration;

use dev_core::Backend;
use links::settings::Settings;
use tcp::Instant;

use crate::engine::Engine;
use crate::process::event_loop::{Next, Task, Watched};

/// Without packets for so long the thread sleeps until one comes: it costs nothing then, and a
/// packet now and then costs a wake-up.
const REST_AFTER: Duration = Duration::from_secs(1);

/// When the interfaces are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// When a packet comes (`VMA_INTERNAL_THREAD_ARM_CQ`).
    EveryPacket,
    /// In intervals; so many in a row have found nothing.
    Intervals { in_vain: u32 },
    /// In intervals as soon as a packet comes.
    Resting,
}

/// Takes in what has come on interfaces that nobody polls.
pub(super) struct Unpolled<B: Backend> {
    engine: &'static Engine<B>,
    interval: Duration,
    packets_max: usize,
    pace: Pace,
}

impl<B: Backend> Unpolled<B> {
    /// `None`: the configuration wants none of it.
    pub(super) fn new(engine: &'static Engine<B>) -> Option<Self> {
        let settings = engine.settings();
        Some(Self {
            engine,
            interval: settings.progress_interval,
            packets_max: settings.progress_packets_max,
            pace: Pace::first(settings)?,
        })
    }
}

impl Pace {
    fn first(settings: &Settings) -> Option<Self> {
        let is_on = !settings.progress_interval.is_zero() && settings.progress_packets_max > 0;
        match (settings.internal_thread_receives, is_on) {
            (true, _) => Some(Self::EveryPacket),
            (false, true) => Some(Self::Resting),
            (false, false) => None,
        }
    }

    /// What follows a look that has found something, or not.
    fn after(self, found: bool, interval: Duration) -> Self {
        match self {
            Self::EveryPacket => self,
            // Whoever sleeps in a call is woken by the same packet: it is given an interval.
            Self::Resting => Self::Intervals { in_vain: 0 },
            Self::Intervals { .. } if found => Self::Intervals { in_vain: 0 },
            Self::Intervals { in_vain } if interval * in_vain < REST_AFTER => Self::Intervals {
                in_vain: in_vain + 1,
            },
            Self::Intervals { .. } => Self::Resting,
        }
    }

    fn waits_for_packets(self) -> bool {
        !matches!(self, Self::Intervals { .. })
    }
}

impl<B: Backend> Task for Unpolled<B> {
    fn watch(&self, watched: &mut Watched) {
        if self.pace.waits_for_packets() {
            let fds = self.engine.links.wait_fds();
            fds.for_each(|fd| watched.add(fd, libc::POLLIN));
        }
    }

    fn run(&mut self, watched: &[libc::pollfd], _now: Instant) -> Next {
        let has_come = watched.iter().any(|it| it.revents != 0);
        match self.pace {
            Pace::EveryPacket if has_come => self.engine.links.drain(),
            Pace::Resting if has_come => self.pace = self.pace.after(true, self.interval),
            Pace::Intervals { .. } => {
                let found = self.engine.links.drain_unpolled(self.packets_max);
                self.pace = self.pace.after(found, self.interval);
            }
            Pace::EveryPacket | Pace::Resting => {}
        }
        if self.pace.waits_for_packets() {
            Next::OnEvent
        } else {
            Next::In(self.interval)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_after_a_second_without_packets_and_begins_with_one() {
        let interval = Duration::from_millis(100);
        let mut pace = Pace::Resting;
        assert!(pace.waits_for_packets());
        pace = pace.after(true, interval);
        for _ in 0..10 {
            pace = pace.after(false, interval);
            assert!(!pace.waits_for_packets(), "{pace:?}");
        }
        assert_eq!(pace.after(true, interval), Pace::Intervals { in_vain: 0 });
        assert_eq!(pace.after(false, interval), Pace::Resting);
        assert_eq!(Pace::EveryPacket.after(false, interval), Pace::EveryPacket);
    }
}
