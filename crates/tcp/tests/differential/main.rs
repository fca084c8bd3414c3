//! Random sequences of calls and segments, played against the engine in virtual time and against
//! Linux: do both answer alike?
//!
//! A tool to find differences, to be run by hand (as root): what it finds is judged by a reader,
//! becomes a script of its own (`../scripts`), and is mended or listed in `judge.rs` or `generate`
//! with the reason. It depends on the kernel's timers, so on a machine that has little else to do:
//!
//! ```text
//! DIFFERENTIAL_FIRST=0 DIFFERENTIAL_SEEDS=1500 cargo test -p tcp --test differential -- --ignored --nocapture
//! ```
//!
//! A difference counts if it shows three times in a row, and is told with as few steps as show it
//! (`DIFFERENTIAL_SHRINK=0`: with all). Plans wait most of the time, so `DIFFERENTIAL_THREADS` of
//! them (40) are played at a time.

//!
//! What is known and stays, with a seed that shows it (of 0 to 1499 on Linux 6.18; five report):
//!
//! * 379: rate reduction counts octets (RFC 9937), Linux whole segments: when two of ten segments
//!   are reported on a mark, it sends two more, the engine one. And RACK's timer has no reserve of
//!   two jiffies (`recovery/rack.rs`).
//! * 1155: header prediction. Linux does not look at the acknowledgement of a data segment in order
//!   that acknowledges nothing new, so that does not restart the timer of its window probe.
//! * 1199: what is sent again while SACK blocks are owed. Linux cuts the segment to make room for
//!   them, the engine sends it as it was and the blocks with the next segment.
//! * 1376: an orphan in FIN-WAIT-2. Linux keeps no more of it than of one in TIME-WAIT, which any
//!   RST in the window ends (`tcp_timewait_state_process`); here it has to be exact (RFC 5961
//!   §3.2).
//! * 1459: a FIN numbered before data that has come. Linux takes it for one behind a gap, the
//!   engine for a forgery (`note_fin`).

mod generate;
mod judge;
mod plan;
mod play;
mod render;
#[path = "../support/mod.rs"]
mod support;
mod view;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use packetdrill::Linux;
use testkit::or_skip;

use judge::Difference;
use plan::Plan;
use play::{Trace, play};
use support::engine::Engine;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

fn engine(plan: &Plan, times: Option<&[Duration]>) -> Trace {
    play(plan, &mut Engine::new(0x1000_0000), times)
}

/// Plays `plan` against both; the traces and how they differ.
fn compare(plan: &Plan, linux: &mut Linux) -> (Trace, Trace, Option<Difference>) {
    let mut kernel = play(plan, linux, None);
    for _ in 0..20 {
        if !kernel.is_late(plan) {
            break;
        }
        kernel = play(plan, linux, None);
    }
    let engine = engine(plan, Some(&kernel.times()));
    let difference = judge::compare(&kernel, &engine);
    (kernel, engine, difference)
}

/// A difference that does not depend on the moment.
fn confirm(plan: &Plan, linux: &mut Linux) -> Option<(Trace, Trace, Difference)> {
    let mut found = None;
    for _ in 0..3 {
        let (kernel, engine, difference) = compare(plan, linux);
        found = Some((kernel, engine, difference?));
    }
    found
}

/// Fewer steps that still show a difference.
fn shrink(plan: &Plan, linux: &mut Linux, difference: &Difference) -> Plan {
    let mut plan = plan.clone();
    plan.steps.truncate(difference.step + 1);
    if confirm(&plan, linux).is_none() {
        return plan;
    }
    let mut index = plan.steps.len();
    while index > plan.fixed {
        index -= 1;
        let mut shorter = plan.clone();
        let removed = shorter.steps.remove(index);
        if let Some(next) = shorter.steps.get_mut(index) {
            next.gap += removed.gap;
        }
        if confirm(&shorter, linux).is_some() {
            plan = shorter;
        }
    }
    plan
}

#[test]
#[ignore = "a tool whose findings are for a reader: see the top of the file"]
fn the_engine_and_linux_answer_alike() {
    drop(or_skip!(Linux::without_offload()));
    let first = number("DIFFERENTIAL_FIRST", 0);
    let count = number("DIFFERENTIAL_SEEDS", 200);
    let threads = number("DIFFERENTIAL_THREADS", 40);
    let does_shrink = number("DIFFERENTIAL_SHRINK", 1) != 0;
    let next = AtomicU64::new(first);
    let reports = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut linux = Linux::without_offload().expect("a namespace could be made before");
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        break;
                    }
                    let mut plan = Plan::generate(seed);
                    let (_, _, difference) = compare(&plan, &mut linux);
                    if difference.is_none() {
                        continue;
                    }
                    let Some((mut kernel, mut engine, mut difference)) = confirm(&plan, &mut linux)
                    else {
                        continue;
                    };
                    if does_shrink {
                        let shorter = shrink(&plan, &mut linux, &difference);
                        if let Some(found) = confirm(&shorter, &mut linux) {
                            plan = shorter;
                            (kernel, engine, difference) = found;
                        }
                    }
                    let text = render::report(&plan, &kernel, &engine, &difference);
                    println!("{text}");
                    reports.lock().unwrap().push(seed);
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap();
    reports.sort_unstable();
    assert!(
        reports.is_empty(),
        "{} of {count} differ: {reports:?}",
        reports.len()
    );
}
