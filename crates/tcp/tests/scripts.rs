//! Scripts against the engine, in virtual time: those of `scripts/`, and the corpus of
//! google/packetdrill if `PACKETDRILL_CORPUS` says where its `gtests/net/tcp` is.

use std::path::{Path, PathBuf};
use std::time::Duration;

use packetdrill::scripts::{self, Expected};
use packetdrill::{Conditions, Failure, run};

mod support;

use support::engine::Engine;

fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

/// Plays a script; `isn` are the initial sequence numbers of the engine and its peer.
fn play(path: &Path, isn: (u32, u32), is_own: bool) -> Result<(), Failure> {
    let script = scripts::read(path)?;
    let mut engine = Engine::new(isn.0);
    let conditions = Conditions {
        remote_isn: isn.1,
        all_packets: is_own,
        any_push: !is_own,
        is_ipv6: path.to_string_lossy().ends_with("-ipv6.pkt"),
        least_tolerance: Duration::ZERO,
    };
    run(&script, &mut engine, &conditions)
}

fn own_scripts_with(isn: (u32, u32)) {
    let own = tests().join("scripts");
    let scripts = scripts::find(&own);
    assert!(!scripts.is_empty(), "no scripts");
    let failures = scripts::play_all(&scripts, 2, |path| play(path, isn, true));
    let expected = Expected::read(&tests().join("scripts_expected.txt"), &own);
    let wrong = expected.judge(&scripts, &failures);
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn the_engine_does_what_the_scripts_say() {
    own_scripts_with((0x1000_0000, 0));
}

#[test]
fn the_same_holds_where_sequence_numbers_wrap_around() {
    own_scripts_with((u32::MAX - 700, u32::MAX - 50));
}

#[test]
#[ignore = "needs PACKETDRILL_CORPUS, the path of gtests/net/tcp of google/packetdrill"]
fn the_corpus_differs_only_where_it_is_known_to() {
    let corpus =
        std::env::var_os("PACKETDRILL_CORPUS").expect("the corpus is not in this repository");
    let corpus = PathBuf::from(corpus);
    let scripts = scripts::find(&corpus);
    let failures = scripts::play_all(&scripts, 2, |path| play(path, (0x1000_0000, 0), false));
    let expected = Expected::read(&tests().join("packetdrill_expected.txt"), &corpus);
    let wrong = expected.judge(&scripts, &failures);
    let passed = scripts.len() - failures.len();
    assert!(
        wrong.is_empty(),
        "{wrong}{passed} of {} passed",
        scripts.len()
    );
}
