//! What recording a sample costs: from the note that a message leaves to the histograms.
//!
//! `cargo bench -p sockperf-rs --bench samples`

use std::hint::black_box;
use std::io::{self, Write};
use std::time::Instant;

use sockperf_rs::client::flight::{Flight, Unanswered};
use sockperf_rs::measure::intervals;
use sockperf_rs::measure::recorder::{Recorder, Window};

const SAMPLES: u64 = 5_000_000;
const ROUNDS: usize = 7;
const WINDOW: Window = Window::AfterWarmUp {
    warm_up_nsec: 400_000_000,
};

fn main() -> io::Result<()> {
    let plain = || recorder(false, false);
    let all = || recorder(true, true);
    for (name, make) in [
        ("ping-pong", &plain as &dyn Fn() -> Recorder),
        ("with intervals and corrected times", &all),
    ] {
        let mut nsec: Vec<f64> = (0..ROUNDS).map(|_| cost_nsec(make())).collect();
        nsec.sort_by(f64::total_cmp);
        let median = nsec.get(ROUNDS / 2).copied().unwrap_or(f64::NAN);
        writeln!(io::stdout(), "{name}: {median:.1} ns per sample")?;
    }
    Ok(())
}

fn recorder(has_tap: bool, is_corrected: bool) -> Recorder {
    let mut recorder = Recorder::new(WINDOW, None, None).expect("there is memory");
    if is_corrected {
        recorder = recorder.with_corrected(2).expect("there is memory");
    }
    if has_tap {
        let (tap, _collector) = intervals::pair().expect("there is memory");
        recorder = recorder.with_tap(Some(tap));
    }
    recorder
}

fn cost_nsec(mut recorder: Recorder) -> f64 {
    let mut flight = Flight::new(1, 1);
    let start = Instant::now();
    let mut noise = 1u64;
    for sequence in 1..=SAMPLES {
        // A microsecond apart; between 10 and 42 us each, as of a quiet network.
        let tx_nsec = 1_000_000_000 + sequence * 1000;
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        flight.push(tx_nsec, noise & 0x3ff);
        black_box(flight.receive(sequence, tx_nsec + 10_000 + (noise & 0x7fff)));
        flight.settle(&mut recorder, Unanswered::Drop);
    }
    let elapsed = start.elapsed();
    black_box(recorder.finish(u64::MAX));
    elapsed.as_secs_f64() * 1e9 / SAMPLES as f64
}
