//! The scripts of `scripts/` against Linux: what they claim is what the kernel does. And the
//! scripts of the original's corpus, as a test of the runner: Linux passes them.

use std::path::Path;
use std::time::Duration;

use packetdrill::{Conditions, Failure, Linux, run, scripts};
use testkit::or_skip;

/// What a machine that does other things, too, may be late by.
const TOLERANCE: Duration = Duration::from_millis(15);

/// Plays a script against the kernel.
fn play(path: &Path, least_tolerance: Duration) -> Result<(), Failure> {
    let script = scripts::read(path)?;
    let mut linux = Linux::new().expect("a namespace could be made before");
    let conditions = Conditions {
        remote_isn: 0,
        all_packets: false,
        any_push: false,
        is_ipv6: false,
        least_tolerance,
    };
    run(&script, &mut linux, &conditions)
}

#[test]
fn linux_does_what_the_scripts_say() {
    drop(or_skip!(Linux::new()));
    // They wait most of the time.
    let own = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scripts"));
    let own = scripts::find(own);
    assert!(!own.is_empty(), "no scripts");
    let mut failures = scripts::play_all(&own, 4, |path| play(path, TOLERANCE));
    // A machine that stood still for a moment is not a finding, nor is one that is always late.
    // Alone, scripts are not disturbed by each other.
    for round in 0..8 {
        let again: Vec<_> = failures.into_iter().map(|(path, _)| path).collect();
        let tolerance = TOLERANCE * (1 + round / 2);
        failures = scripts::play_all(&again, 1, |path| play(path, tolerance));
    }
    assert!(failures.is_empty(), "{}", scripts::report(&failures));
}

/// Not a test of this project's code under test but of the runner, and slow: by hand.
#[test]
#[ignore = "takes minutes; needs PACKETDRILL_CORPUS"]
fn linux_passes_the_corpus() {
    let corpus = std::env::var_os("PACKETDRILL_CORPUS").expect("PACKETDRILL_CORPUS is set");
    drop(or_skip!(Linux::new()));
    let scripts = scripts::find(Path::new(&corpus));
    let failures = scripts::play_all(&scripts, 4, |path| play(path, TOLERANCE));
    let report = scripts::report(&failures);
    assert!(
        failures.is_empty(),
        "{report}{} of {} failed",
        failures.len(),
        scripts.len()
    );
}
