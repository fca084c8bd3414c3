//! Connections in every state against a peer that sends anything. `cargo xtask fuzz` plays the same with coverage.
//!
//! `HOSTILE_SEEDS=n` plays one seed, `HOSTILE_SEEDS=first..end` others than the default.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tcp::State;

mod support;

use support::hostile;
use support::network::Rng;

/// Half a minute of a small machine.
const SEEDS: u64 = 500_000;

fn play(seed: u64) {
    let mut rng = Rng::new(seed);
    let words = rng.between(8, 200);
    let bytes: Vec<u8> = (0..words).flat_map(|_| rng.next().to_be_bytes()).collect();
    hostile::run(&bytes);
}

#[test]
fn nothing_that_a_peer_sends_does_harm() {
    let number = |text: &str| {
        text.parse()
            .expect("HOSTILE_SEEDS is `seed` or `first..end`")
    };
    let seeds = match env::var("HOSTILE_SEEDS") {
        Err(_) => 0..SEEDS,
        Ok(text) => match text.split_once("..") {
            Some((first, end)) => number(first)..number(end),
            None => number(&text)..number(&text) + 1,
        },
    };
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while failed.load(Ordering::Relaxed) == u64::MAX {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    if panic::catch_unwind(AssertUnwindSafe(|| play(seed))).is_err() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    assert!(
        failed == u64::MAX,
        "seed {failed} failed; replay it with HOSTILE_SEEDS={failed}"
    );
}

/// What the fuzzer begins with, and what it once found.
#[test]
fn what_was_found_once_stays_mended() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/tcp");
    let entries = fs::read_dir(&directory).expect("the fuzzer's corpus");
    let inputs: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert!(!inputs.is_empty(), "{} is empty", directory.display());
    for input in inputs {
        let bytes = fs::read(&input).expect("a file of the corpus");
        let result = panic::catch_unwind(|| hostile::run(&bytes));
        assert!(result.is_ok(), "{}", input.display());
    }
}

#[test]
fn malice_begins_in_every_state() {
    let states: HashSet<State> = (0..=u8::MAX)
        .flat_map(|choices| (0..9).map(move |target| hostile::first_state(&[choices, target])))
        .collect();
    for state in State::ALL
        .into_iter()
        .filter(|state| *state != State::Closed)
    {
        assert!(states.contains(&state), "{state:?} is not among {states:?}");
    }
}
