//! Retransmission timeouts over the life of a connection (kernel `tcp_update_rto_stats`,
//! `tcp_update_rto_time`).

use core::num::NonZeroU32;
use core::time::Duration;

use crate::Instant;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeoutHistory {
    /// `tcpi_total_rto`, the handshake's included.
    total: u16,
    /// `tcpi_total_rto_recoveries`: episodes of them.
    episodes: u16,
    /// In those that are over, in milliseconds.
    time: u32,
    /// When the present one began, in milliseconds modulo 2^32.
    since: Option<NonZeroU32>,
}

impl TimeoutHistory {
    /// The retransmission timer has expired; `is_first`: an episode of timeouts begins.
    pub(crate) fn on_timeout(&mut self, is_first: bool, now: Instant) {
        self.total = self.total.saturating_add(1);
        if is_first {
            self.episodes = self.episodes.saturating_add(1);
            let millis = NonZeroU32::new(now.wrapping_millis()).unwrap_or(NonZeroU32::MIN);
            self.since.get_or_insert(millis);
        }
    }

    /// What was lost is repaired.
    pub(crate) fn on_recovered(&mut self, now: Instant) {
        self.time = self.millis(now);
        self.since = None;
    }

    pub(crate) const fn is_recovering(&self) -> bool {
        self.since.is_some()
    }

    pub(crate) const fn total(&self) -> u16 {
        self.total
    }

    pub(crate) const fn episodes(&self) -> u16 {
        self.episodes
    }

    /// `tcpi_total_rto_time`, with the present episode.
    pub(crate) fn time(&self, now: Instant) -> Duration {
        Duration::from_millis(self.millis(now).into())
    }

    fn millis(&self, now: Instant) -> u32 {
        let present = self
            .since
            .map_or(0, |since| now.wrapping_millis().wrapping_sub(since.get()));
        // A clock may step back; nothing lasts half of what can be told.
        let is_later = present.cast_signed() >= 0;
        self.time.saturating_add(if is_later { present } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_episode_lasts_from_its_first_timeout_to_the_repair() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let millis = |history: &TimeoutHistory, now| history.time(at(now)).as_millis();
        let mut history = TimeoutHistory::default();
        history.on_recovered(at(5));
        assert_eq!(millis(&history, 10), 0);
        history.on_timeout(true, at(200));
        history.on_timeout(false, at(600));
        assert_eq!(millis(&history, 700), 500);
        history.on_recovered(at(701));
        history.on_timeout(true, at(1000));
        assert_eq!(millis(&history, 1002), 503);
        assert_eq!((history.total(), history.episodes()), (3, 2));
    }
}
