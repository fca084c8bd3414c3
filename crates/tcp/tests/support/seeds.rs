//! Plays seeds, on all processors, until one fails.

use std::env;
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// The seeds that the environment's `variable` asks for, as `seed` or `first..end`; `0..count` if
/// it asks for none.
pub(crate) fn wanted(variable: &str, count: u64) -> Range<u64> {
    let Ok(text) = env::var(variable) else {
        return 0..count;
    };
    let number = |text: &str| -> u64 {
        let number = text.parse();
        number.unwrap_or_else(|_| panic!("{variable} is `seed` or `first..end`, not {text:?}"))
    };
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// Calls `play` with each of `seeds`. Panics with the lowest that was seen to panic, and how to
/// play it again.
pub(crate) fn play_all(variable: &str, seeds: Range<u64>, play: impl Fn(u64) + Sync) {
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
        "seed {failed} failed; replay it with {variable}={failed}"
    );
}
