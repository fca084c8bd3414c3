//! What a connection keeps to look for more.

use super::amounts::UNBOUNDED;
use crate::Instant;
use crate::congestion::window::Window;

/// `BBR.bw_probe_wait` is this and up to a second more, in nanoseconds.
const PROBE_WAIT: u64 = 2_000_000_000;
const PROBE_WAIT_SPREAD: u64 = 1_000_000_000;
const MOST_GROWTH_ROUNDS: u8 = 30;

/// `BBR.ack_phase`: what acknowledgements tell of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckPhase {
    #[default]
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// The state of looking for more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probing {
    pub(super) ack_phase: AckPhase,
    /// `BBR.is_bw_probe_sample`
    pub(super) is_sample: bool,
    /// `BBR.prev_probe_too_high`, `BBR.prev_probe_precautionary`
    pub(super) was_too_high: bool,
    pub(super) was_precautionary: bool,
    pub(super) growth_rounds: u8,
    /// `BBR.rounds_since_probe_up`
    pub(super) rounds_since: u32,
    /// `BBR.bw_probe_up_acked`, `BBR.probe_up_acked_per_inc`
    pub(super) acked: u32,
    pub(super) acked_per_segment: u32,
    /// `BBR.bw_probe_wait`, in nanoseconds, since `BBR.cycle_stamp`.
    pub(super) wait: u64,
    pub(super) since: Instant,
    random: u64,
}

impl Default for Probing {
    fn default() -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            was_too_high: false,
            was_precautionary: false,
            growth_rounds: 0,
            rounds_since: 0,
            acked: 0,
            acked_per_segment: UNBOUNDED,
            wait: 0,
            since: Instant::ZERO,
            random: 0,
        }
    }
}

impl Probing {
    pub(super) fn seed(&mut self, seed: u32) {
        self.random = seed.into();
    }

    pub(super) fn count_round(&mut self) {
        self.rounds_since = self.rounds_since.saturating_add(1);
    }

    /// `PickProbeWait`
    pub(super) fn pick_wait(&mut self) {
        let random = self.next_random();
        self.rounds_since = u32::from(random & 1 != 0);
        self.wait = PROBE_WAIT.saturating_add((random >> 1) % PROBE_WAIT_SPREAD);
    }

    /// Connections must not probe in step; nobody gains by foreseeing it. Weyl's sequence, mixed
    /// (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// `RaiseInflightLongtermSlope`
    pub(super) fn raise_slope(&mut self, window: &Window) {
        let growth = window.cwnd.checked_shr(self.growth_rounds.into());
        self.growth_rounds = self.growth_rounds.saturating_add(1).min(MOST_GROWTH_ROUNDS);
        self.acked_per_segment = growth.unwrap_or(0).max(window.mss);
    }
}
