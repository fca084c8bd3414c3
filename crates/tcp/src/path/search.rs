//! Which packets a path takes, found by sending larger ones (RFC 4821 §7; kernel `tcp_mtu_probe`,
//! `tcp_mtu_probing`).

use core::time::Duration;

use crate::{Instant, SeqNumber};

/// A search for the path's MTU, between a size that arrives and one that may. Sizes are of packets,
/// IP header included, in octets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuSearch {
    /// In use (`search_low`).
    low: u16,
    /// What is larger was lost, or cannot be sent (`search_high`).
    high: u16,
    /// What the network layer says of the path.
    path_mtu: u16,
    /// When it began.
    since: Instant,
    probe: Option<MtuProbe>,
}

/// A segment that is larger than the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MtuProbe {
    pub(crate) mtu: u16,
    pub(crate) start: SeqNumber,
    pub(crate) end: SeqNumber,
}

impl MtuSearch {
    /// From `low` up to `most`, of a path that is said to take `path_mtu`.
    pub(crate) fn new(low: u16, most: u16, path_mtu: u16, now: Instant) -> Self {
        Self {
            low: low.min(path_mtu),
            high: most.min(path_mtu),
            path_mtu,
            since: now,
            probe: None,
        }
    }

    /// The largest packet to send, but for probes.
    pub(crate) const fn mtu(&self) -> u16 {
        self.low
    }

    /// What the network layer says of the path.
    pub(crate) const fn path_mtu(&self) -> u16 {
        self.path_mtu
    }

    /// The next size to try; `None` while one is under way, and when the bounds are closer than
    /// `threshold` (RFC 4821 §7.3). Then, every `interval`, the search begins anew, up to `most`:
    /// the path may have changed.
    pub(crate) fn next_mtu(
        &mut self,
        now: Instant,
        most: u16,
        threshold: u16,
        interval: Duration,
    ) -> Option<u16> {
        if self.probe.is_some() {
            return None;
        }
        if self.high.saturating_sub(self.low) < threshold.max(LEAST_STEP) {
            if now - self.since >= interval {
                self.high = most.min(self.path_mtu);
                self.since = now;
            }
            return None;
        }
        Some(self.low.midpoint(self.high))
    }

    pub(crate) const fn on_sent(&mut self, probe: MtuProbe) {
        self.probe = Some(probe);
    }

    pub(crate) const fn probe(&self) -> Option<MtuProbe> {
        self.probe
    }

    /// Everything before `snd_una` has arrived. Whether the probe has, too, so that larger segments
    /// can be sent.
    pub(crate) fn on_ack(&mut self, snd_una: SeqNumber) -> bool {
        match self.probe {
            Some(probe) if probe.end <= snd_una => {
                self.probe = None;
                self.low = self.low.max(probe.mtu);
                true
            }
            Some(_) | None => false,
        }
    }

    /// The probe was lost, and what was sent behind it was not.
    pub(crate) fn on_lost(&mut self) {
        if let Some(probe) = self.probe.take() {
            self.high = probe.mtu.saturating_sub(1).max(self.low);
        }
    }

    /// Other losses leave open what became of the probe (RFC 4821 §7.6.4).
    pub(crate) const fn abandon(&mut self) {
        self.probe = None;
    }

    /// What was taken for granted is lost as well: at most `mtu` from here on.
    pub(crate) fn fall_back(&mut self, mtu: u16) {
        self.low = self.low.min(mtu);
        self.probe = None;
    }

    /// The network layer says that the path takes `mtu`; if that is more than before there may be
    /// more to find, up to `most`.
    pub(crate) fn set_path_mtu(&mut self, mtu: u16, most: u16) {
        self.high = if mtu > self.path_mtu {
            most.min(mtu)
        } else {
            self.high.min(mtu)
        };
        self.low = self.low.min(mtu);
        self.path_mtu = mtu;
    }
}

/// A probe differs from a full segment by more than a FIN does.
const LEAST_STEP: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(600);

    fn next(search: &mut MtuSearch, secs: u64) -> Option<u16> {
        search.next_mtu(at(secs), 1500, 8, INTERVAL)
    }

    fn at(secs: u64) -> Instant {
        Instant::from_nanos(secs * 1_000_000_000)
    }

    fn probe(search: &mut MtuSearch, mtu: u16) {
        search.on_sent(MtuProbe {
            mtu,
            start: SeqNumber(1),
            end: SeqNumber(1000),
        });
    }

    /// The sizes that are tried on a path that takes packets of `mtu` octets.
    fn tried(search: &mut MtuSearch, mtu: u16, secs: u64) -> Vec<u16> {
        let mut tried = Vec::new();
        while let Some(size) = next(search, secs) {
            tried.push(size);
            probe(search, size);
            assert_eq!(next(search, secs), None, "one at a time");
            if size <= mtu {
                assert!(!search.on_ack(SeqNumber(999)));
                assert!(search.on_ack(SeqNumber(1000)));
            } else {
                search.on_lost();
            }
        }
        tried
    }

    #[test]
    fn halving_the_interval_finds_the_path_mtu() {
        let mut search = MtuSearch::new(552, 1500, 1500, at(0));
        let sizes = tried(&mut search, 1400, 0);
        assert_eq!(sizes, [1026, 1263, 1381, 1440, 1410, 1395, 1402]);
        assert_eq!(search.mtu(), 1395);
        // The path takes more later on.
        assert_eq!(next(&mut search, 599), None);
        assert_eq!(next(&mut search, 600), None);
        tried(&mut search, 1500, 600);
        assert!((1493..=1500).contains(&search.mtu()), "{search:?}");
    }

    #[test]
    fn nothing_is_sent_that_the_network_layer_would_not_take() {
        let mut search = MtuSearch::new(552, 1500, 576, at(0));
        assert!(tried(&mut search, 1500, 0).iter().all(|size| *size <= 576));
        search.set_path_mtu(1000, 1500);
        let sizes = tried(&mut search, 1500, 0);
        assert!(sizes.iter().all(|size| *size <= 1000), "{sizes:?}");
        assert!(search.mtu() > 990);
        search.set_path_mtu(600, 1500);
        assert_eq!(search.mtu(), 600);
        assert_eq!(next(&mut search, 10_000), None);
        assert!(tried(&mut search, 1500, 10_000).is_empty());
    }

    #[test]
    fn what_is_lost_with_other_segments_is_tried_again() {
        let mut search = MtuSearch::new(552, 1500, 1500, at(0));
        probe(&mut search, 1026);
        search.abandon();
        assert!(!search.on_ack(SeqNumber(1000)));
        assert_eq!(next(&mut search, 0), Some(1026));
        search.fall_back(300);
        assert_eq!(search.mtu(), 300);
    }
}
