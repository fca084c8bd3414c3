//! The scripts of `crates/tcp` through the C library's calls of a program that preloads the
//! library, over Ethernet: what programs see of TCP past the kernel.

use std::path::{Path, PathBuf};
use std::time::Duration;

use packetdrill::scripts::{self, Expected};
use packetdrill::{Conditions, Failure, Place, Remote, run};
use testkit::{Namespace, or_skip, preloaded};

/// What a machine that does other things, too, may be late by.
const TOLERANCE: Duration = Duration::from_millis(15);

/// Scripts wait most of the time.
const AT_A_TIME: usize = 4;

/// One in so many is played for every change, of each directory some.
const SELECTED: usize = 7;

/// What these say of a packet that is longer than the MTU nobody sees on Ethernet, where it comes
/// in two: the kernel does not always pass them there either.
const OF_LONG_PACKETS: [&str; 2] = ["receive/dsack-behind-gap.pkt", "urgent/send-behind.pkt"];

fn tests() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
}

fn remote() -> Result<Remote, testkit::Skip> {
    Remote::new(|namespace: &Namespace| {
        let program = Path::new(env!("CARGO_BIN_EXE_packetdrill-program"));
        let mut command = preloaded(namespace, program).expect("the library can be built");
        // Four that poll would take the CPUs from each other and from the scripts.
        command.env("VMA_RX_POLL", "0").env("VMA_SELECT_POLL", "0");
        command.env("VMA_TRACELEVEL", "warn");
        command
    })
}

/// Plays a script. It has to be the library that sends, but for `kernels`.
fn play(path: &Path, least_tolerance: Duration, kernels: &Expected) -> Result<(), Failure> {
    let script = scripts::read(path)?;
    let mut remote = remote().expect("a namespace could be made before");
    let conditions = Conditions {
        remote_isn: 0,
        all_packets: false,
        any_push: false,
        is_ipv6: false,
        least_tolerance,
    };
    run(&script, &mut remote, &conditions)?;
    let count = remote.kernel_segments();
    if count == 0 || kernels.has(path) {
        return Ok(());
    }
    Err(Failure {
        path: path.to_string_lossy().into_owned(),
        place: Place::default(),
        message: format!("the kernel has sent {count} segments"),
        unsupported: false,
    })
}

fn play_all(scripts: &[PathBuf], root: &Path) {
    let expected = Expected::read(&tests().join("preloaded_expected.txt"), root);
    let kernels = Expected::read(&tests().join("preloaded_kernels.txt"), root);
    let play_with = |paths: &[PathBuf], thread_count, tolerance| {
        scripts::play_all(paths, thread_count, |path| play(path, tolerance, &kernels))
    };
    let mut failures = play_with(scripts, AT_A_TIME, TOLERANCE);
    // A machine that stood still for a moment is not a finding, nor is one that is always late.
    // Alone, scripts are not disturbed by each other.
    for round in 0..8 {
        let (known, other): (Vec<_>, Vec<_>) = failures
            .into_iter()
            .partition(|(path, _)| expected.has(path));
        let again: Vec<_> = other.into_iter().map(|(path, _)| path).collect();
        failures = play_with(&again, 1, TOLERANCE * (1 + round / 2));
        failures.extend(known);
    }
    let wrong = expected.judge(scripts, &failures);
    assert!(wrong.is_empty(), "{wrong}");
}

fn root() -> PathBuf {
    tests().join("../../tcp/tests/scripts")
}

fn scripts() -> Vec<PathBuf> {
    let root = root();
    let mut scripts = scripts::find(&root);
    let is_of_long = |path: &Path| OF_LONG_PACKETS.iter().any(|name| path.ends_with(name));
    scripts.retain(|path| !is_of_long(path));
    assert!(!scripts.is_empty(), "no scripts");
    scripts
}

#[test]
fn some_scripts_pass_through_the_c_library() {
    drop(or_skip!(remote()));
    let selected: Vec<_> = scripts().into_iter().step_by(SELECTED).collect();
    play_all(&selected, &root());
}

/// Takes half a minute.
#[test]
#[ignore = "for cargo xtask test --long"]
fn all_scripts_pass_through_the_c_library() {
    drop(or_skip!(remote()));
    play_all(&scripts(), &root());
}
