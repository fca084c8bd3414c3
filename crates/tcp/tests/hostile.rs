//! Connections in every state against a peer that sends anything. `cargo xtask fuzz` plays the same
//! with coverage.
//!
//! `HOSTILE_SEEDS=n` plays one seed, `HOSTILE_SEEDS=first..end` others than the default.

use std::collections::HashSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use tcp::State;

mod support;

use support::network::Rng;
use support::{hostile, seeds};

const VARIABLE: &str = "HOSTILE_SEEDS";

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
    seeds::play_all(VARIABLE, seeds::wanted(VARIABLE, SEEDS), play);
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
