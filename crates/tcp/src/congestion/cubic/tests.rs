#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the reference computes with floating point numbers"
)]

use proptest::prelude::*;

use super::*;
use crate::SeqNumber;

const MSS: u32 = 1000;

/// RFC 9438 as it is written: in segments and seconds, with floating point numbers.
struct Reference {
    cwnd: f64,
    ssthresh: f64,
    w_max: f64,
    cwnd_prior: f64,
    epoch: Option<ReferenceEpoch>,
}

struct ReferenceEpoch {
    start: f64,
    origin: f64,
    k: f64,
    w_est: f64,
}

impl Reference {
    const BETA: f64 = 0.7;
    const C: f64 = 0.4;

    fn on_ack(&mut self, segments: f64, now: f64, rtt: f64) {
        let (w_max, cwnd) = (self.w_max, self.cwnd);
        let epoch = self.epoch.get_or_insert_with(|| ReferenceEpoch {
            start: now,
            origin: w_max.max(cwnd),
            k: ((w_max - cwnd).max(0.0) / Self::C).cbrt(),
            w_est: cwnd,
        });
        let w_cubic = |t: f64| Self::C * (t - epoch.k).powi(3) + epoch.origin;
        let elapsed = now - epoch.start;
        // With the difference that `cubic` names.
        let alpha = if epoch.w_est >= self.cwnd_prior || rtt < 0.0001 {
            1.0
        } else {
            3.0 * (1.0 - Self::BETA) / (1.0 + Self::BETA)
        };
        let (now_on_curve, next_on_curve) = (w_cubic(elapsed), w_cubic(elapsed + rtt));
        epoch.w_est += alpha * segments / cwnd;
        if now_on_curve < epoch.w_est {
            self.cwnd = cwnd.max(epoch.w_est);
        } else {
            let target = next_on_curve.clamp(cwnd, 1.5 * cwnd);
            self.cwnd += (target - cwnd) / cwnd * segments;
        }
    }

    fn on_loss(&mut self) {
        self.w_max = if self.cwnd < self.w_max {
            self.cwnd * (1.0 + Self::BETA) / 2.0
        } else {
            self.cwnd
        };
        self.cwnd_prior = self.cwnd;
        self.ssthresh = (self.cwnd * Self::BETA).max(2.0);
        self.cwnd = self.ssthresh;
        self.epoch = None;
    }
}

fn in_avoidance(cwnd: u32, mss: u32) -> Window {
    Window {
        cwnd,
        ssthresh: cwnd,
        mss,
    }
}

fn ack(acked: u32, now: Instant, rtt: Duration) -> Ack {
    Ack {
        now,
        snd_una: SeqNumber(0),
        snd_nxt: SeqNumber(0),
        acked,
        delivered: acked,
        in_flight: 0,
        is_safe: true,
        rtt: Some(rtt),
        newest: None,
    }
}

proptest! {
    // Requirement: RFC 9438 4.2-1, 4.3-1, 4.6-1
    #[test]
    fn follows_the_floating_point_reference(
        initial_segments in 4_u32..3_000,
        mss in prop::sample::select(vec![536_u32, 1448, 8948]),
        rtt_micros in prop::sample::select(vec![50_u64, 99, 100, 1_000, 5_000, 20_000, 100_000, 300_000]),
        segments_per_ack in 1_u32..5,
        rounds_to_loss in prop::collection::vec(5_u32..60, 1..6),
    ) {
        let rtt = Duration::from_micros(rtt_micros);
        let mut cubic = Cubic::default();
        let mut window = in_avoidance(initial_segments * mss, mss);
        let mut reference = Reference {
            cwnd: f64::from(initial_segments),
            ssthresh: f64::from(initial_segments),
            w_max: 0.0,
            cwnd_prior: 0.0,
            epoch: None,
        };
        let mut now = Instant::ZERO + Duration::from_secs(1);
        for rounds in rounds_to_loss {
            for _ in 0..rounds {
                // Within a round the acknowledgements come evenly.
                let acks = (window.cwnd / (segments_per_ack * mss)).clamp(1, 40);
                let per_ack = window.cwnd / acks;
                for _ in 0..acks {
                    now = now + rtt / acks;
                    cubic.on_ack(&mut window, &ack(per_ack, now, rtt));
                    reference.on_ack(
                        f64::from(per_ack) / f64::from(mss),
                        now.as_nanos() as f64 / 1e9,
                        rtt.as_secs_f64(),
                    );
                }
                let ours = f64::from(window.cwnd) / f64::from(mss);
                // Milliseconds and whole octets cost a part in a hundred at most.
                prop_assert!(
                    (ours - reference.cwnd).abs() <= 0.01 * reference.cwnd + 0.05,
                    "{ours} segments, reference {}", reference.cwnd
                );
            }
            // Do not let errors of one epoch add up over the next ones, nor decide whether
            // convergence is fast, which at the plateau is a matter of an octet.
            reference.cwnd = f64::from(window.cwnd) / f64::from(mss);
            reference.on_loss();
            let ssthresh = cubic.on_reduction(&window, now);
            window.ssthresh = ssthresh;
            window.cwnd = ssthresh;
            reference.cwnd = f64::from(window.cwnd) / f64::from(mss);
            let w_max = f64::from(cubic.memory.w_max) / f64::from(mss);
            prop_assert!((w_max - reference.w_max).abs() < 0.01);
            reference.w_max = w_max;
        }
    }

    #[test]
    fn cube_roots_are_exact(value in any::<u64>()) {
        let root = u128::from(cube_root(value));
        prop_assert!(root.pow(3) <= u128::from(value));
        prop_assert!((root + 1).pow(3) > u128::from(value));
    }
}

#[test]
fn cube_roots_are_exact_around_cubes_and_at_the_ends() {
    for root in (0..3000).chain([2_642_244, 2_642_245]) {
        let cube: u64 = root * root * root;
        assert_eq!(cube_root(cube), root);
        assert_eq!(cube_root(cube.saturating_add(1)), root.max(1), "{root}");
        if root > 1 {
            assert_eq!(cube_root(cube - 1), root - 1);
        }
    }
    assert_eq!(cube_root(u64::MAX), 2_642_245);
}

/// RFC 9438 §4.6, §4.7
// Requirement: RFC 9438 4.7-1
#[test]
fn a_loss_below_the_last_plateau_makes_room() {
    let mut cubic = Cubic::default();
    let now = Instant::ZERO;
    assert_eq!(
        cubic.on_reduction(&in_avoidance(100 * MSS, MSS), now),
        70 * MSS
    );
    assert_eq!(cubic.memory.w_max, 100 * MSS);
    assert_eq!(
        cubic.on_reduction(&in_avoidance(80 * MSS, MSS), now),
        56 * MSS
    );
    assert_eq!(cubic.memory.w_max, 68 * MSS);
    assert_eq!(
        cubic.on_reduction(&in_avoidance(90 * MSS, MSS), now),
        63 * MSS
    );
    assert_eq!(cubic.memory.w_max, 90 * MSS);
}

/// RFC 9438 §4.2: the curve is flat at `W_max` after `K` seconds.
// Requirement: RFC 9438 4.2-1
#[test]
fn the_window_is_back_at_the_plateau_after_k() {
    let mut cubic = Cubic::default();
    let mut window = in_avoidance(1000 * MSS, MSS);
    window.ssthresh = cubic.on_reduction(&window, Instant::ZERO);
    window.cwnd = window.ssthresh;
    let rtt = Duration::from_millis(50);
    let mut now = Instant::ZERO;
    // K = cbrt(300 / 0.4) = 9.086 s
    while now < Instant::from_nanos(9_086_000_000) {
        assert!(window.cwnd <= 1000 * MSS);
        let acked = window.cwnd;
        cubic.on_ack(&mut window, &ack(acked, now, rtt));
        now = now + rtt;
    }
    assert!(window.cwnd > 995 * MSS, "{}", window.cwnd);
    assert_eq!(cubic.epoch.unwrap().k_millis, 9085);
}

/// RFC 9438 §5.8
// Requirement: RFC 9438 5.8-1
#[test]
fn time_without_use_of_the_window_does_not_count() {
    let rtt = Duration::from_millis(50);
    let run = |idle: Duration| {
        let mut cubic = Cubic::default();
        let mut window = in_avoidance(100 * MSS, MSS);
        let mut now = Instant::ZERO + Duration::from_secs(1);
        for round in 0..60 {
            if round == 30 {
                now = now + idle;
                cubic.on_idle(idle);
            }
            let acked = window.cwnd;
            cubic.on_ack(&mut window, &ack(acked, now, rtt));
            now = now + rtt;
        }
        window.cwnd
    };
    assert_eq!(run(Duration::ZERO), run(Duration::from_secs(20)));

    let mut cubic = Cubic::default();
    let mut window = in_avoidance(100 * MSS, MSS);
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    cubic.on_ack(&mut window, &ack(MSS, at(1), rtt));
    cubic.on_unused_window(at(11));
    cubic.on_unused_window(at(15));
    assert_eq!(cubic.epoch.unwrap().start, at(15));
}

/// RFC 9438 §4.8
// Requirement: RFC 9438 4.8-1
#[test]
fn after_a_timeout_the_stage_begins_on_the_plateau() {
    let mut cubic = Cubic::default();
    let mut window = in_avoidance(100 * MSS, MSS);
    window.ssthresh = cubic.on_reduction(&window, Instant::ZERO);
    cubic.on_rto();
    window.cwnd = MSS;
    let rtt = Duration::from_millis(50);
    let mut now = Instant::ZERO;
    while window.in_slow_start() {
        cubic.on_ack(&mut window, &ack(MSS, now, rtt));
        now = now + rtt;
    }
    cubic.on_ack(&mut window, &ack(MSS, now, rtt));
    let epoch = cubic.epoch.unwrap();
    assert_eq!(epoch.k_millis, 0);
    assert_eq!(epoch.origin, 70 * MSS);
}

#[test]
fn extreme_times_and_windows_saturate() {
    let mut cubic = Cubic::default();
    let mut window = in_avoidance(MAX_CWND, 65_535);
    cubic.on_ack(&mut window, &ack(u32::MAX, Instant::ZERO, Duration::MAX));
    cubic.on_ack(
        &mut window,
        &ack(u32::MAX, Instant::from_nanos(u64::MAX), Duration::MAX),
    );
    assert_eq!(window.cwnd, MAX_CWND);
    let mut window = in_avoidance(1, 1);
    cubic.on_ack(&mut window, &ack(u32::MAX, Instant::ZERO, Duration::ZERO));
    assert!(window.cwnd >= 1);
}
