//! The commands that the checks run.

use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::process;

/// Names the library that the end-to-end tests preload (see `testkit::libvma_path`).
const LIBRARY_UNDER_TEST: &str = "VMA_TEST_LIBRARY";

/// Whatever is run, it is of the workspace: see `targets.rs`.
pub(super) const WORKSPACE: &str = "--workspace";
/// Those that run again on the emulated RDMA devices.
const BY_VERBS: &[&str] = &["tcp", "udp"];
/// Programs compared with themselves on the kernel. They mostly sleep.
pub(super) const POSIX: &str = "posix";
/// Real programs with and without the library.
pub(super) const SERVICES: &str = "services";

/// Modules of the suites that run again with the debug build of the library, whose arithmetic is
/// checked: those that are quick.
const DEBUG_PASS: &[&str] = &[
    "churn::",
    "integrity::",
    "malformed::",
    "addresses::",
    "options::",
    "receive::",
    "wait::",
];
const OF_DEBUG_PASS: &[&str] = &["udp", "faults", POSIX];

/// Everyday servers of [`SERVICES`]: nothing else runs beside them.
pub(super) const SHIPPED: &str = "shipped::";

/// They mostly sleep.
const THREADS_THAT_SLEEP: &str = "--test-threads=8";

/// A feature of sockperf-rs that is off by default.
pub(super) fn tls() -> Command {
    let feature = [
        "test",
        "--package=sockperf-rs",
        "--features=sockperf-rs/tls",
    ];
    cargo::command(&[&feature[..], &["--lib", "--test", "cli", "tls"]].concat())
}

/// What is quick, with the debug build of the library.
pub(super) fn debug_pass() -> Command {
    let names = OF_DEBUG_PASS.iter().map(|name| format!("--test={name}"));
    let mut command = cargo::command(&["test", "--no-fail-fast", WORKSPACE]);
    command.args(names).arg("--").args(DEBUG_PASS);
    command
}

/// Everyday servers, one after the other.
pub(super) fn shipped(library: &Path) -> Command {
    let mut command = suites(library, &[SERVICES]);
    command.args(["--", "--test-threads=1", SHIPPED]);
    command
}

/// The tests of [`POSIX`] that are left out of the usual ones, and whose names contain one of
/// `parts`.
pub(super) fn left_to_kernel(library: &Path, parts: &[&str]) -> Command {
    let mut command = suites(library, &[POSIX]);
    command.args(["--", "--ignored", THREADS_THAT_SLEEP]);
    command.args(parts);
    command
}

/// These suites; arguments of theirs may follow.
pub(super) fn suites(library: &Path, names: &[&str]) -> Command {
    let names: Vec<_> = names.iter().map(|name| format!("--test={name}")).collect();
    selected(library, &names)
}

/// Test programs of the workspace, as cargo selects them.
pub(super) fn selected(library: &Path, selection: &[String]) -> Command {
    let mut command = tested(library, &[WORKSPACE, "--no-fail-fast"]);
    command.args(selection);
    command
}

/// Compiles what `cargo test --workspace` runs, and programs that only tests of other packages run.
pub(super) fn everything() -> Command {
    let targets = ["--lib", "--bins", "--tests", "--examples"];
    cargo::command(&[&["build", WORKSPACE], &targets[..]].concat())
}

/// The same command at a low priority, so that what is measured beside it is hardly disturbed.
pub(super) fn in_the_background(command: Command) -> Command {
    process::through(&["nice", "-n", "10"], &command)
}

/// Suites on emulated RDMA devices: `verbs`, or `mlx5`. What these have not is skipped.
pub(super) fn by_verbs(library: &Path, device: &str) -> Command {
    let mut command = suites(library, BY_VERBS);
    command
        .args(["--", "--test-threads=2"])
        .env("VMA_TEST_DEVICE", device)
        .env_remove("VMA_TEST_NO_SKIP");
    command
}

/// `cargo test`, where end-to-end tests preload this library, and everything has been compiled.
pub(super) fn tested(library: &Path, arguments: &[&str]) -> Command {
    let mut command = cargo::command(&[&["test"], arguments].concat());
    command.env(LIBRARY_UNDER_TEST, library);
    command.env("VMA_TEST_BUILT", "1");
    command
}

/// The models, built apart from the workspace.
pub(super) fn models_test() -> Command {
    let mut command = cargo::command(&["test", "--locked", "--target-dir"]);
    command
        .arg(cargo::target_directory().join("models"))
        .current_dir(cargo::workspace().join("models"));
    command
}

pub(super) fn models_build() -> Command {
    let mut command = models_test();
    command.arg("--no-run");
    command
}
