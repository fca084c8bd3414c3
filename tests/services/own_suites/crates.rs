//! Tests of crates that the workspace depends on: each a process of its own.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::judge::{Seen, Suite, judge};
use super::turned::Turned;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A crate's tests.
struct Crate {
    programs: Vec<PathBuf>,
}

impl Suite for Crate {
    fn run(&self, turned: &Turned, with: bool, names: Option<&[String]>) -> Seen {
        let mut seen = Seen::default();
        for (program, test) in tests_of(&self.programs) {
            let name = format!("{} {test}", stem(&program));
            if names.is_some_and(|names| !names.contains(&name)) {
                continue;
            }
            let mut command = turned.command(&program, with);
            command.args(["--exact", &test, "--nocapture"]);
            let printed = turned.run(command, TIMEOUT);
            if !printed.is_good {
                seen.words += &format!("--- {name}\n{}\n", printed.all);
            }
            seen.passed.insert(name, printed.is_good);
        }
        seen
    }
}

/// The waits of `polling`, which async-io and smol stand on, with both back-ends of rustix:
/// instructions of its own, and the C library's functions.
#[test]
#[ignore = "builds another crate, twice"]
fn polling() {
    for flags in ["", "--cfg rustix_use_libc"] {
        let suite = Crate {
            programs: programs_of("polling", flags, &[]),
        };
        judge(&format!("polling \"{flags}\""), &suite, &[], 10);
    }
}

#[test]
#[ignore = "builds another crate"]
fn async_io() {
    let suite = Crate {
        programs: programs_of("async-io", "--cfg rustix_use_libc", &["--tests"]),
    };
    judge("async-io", &suite, &[], 4);
}

/// What of tokio has to do with sockets.
#[test]
#[ignore = "builds another crate"]
fn tokio() {
    const PARTS: [&str; 20] = [
        "io_async_fd",
        "io_driver",
        "io_driver_drop",
        "net_bind_resource",
        "net_panic",
        "net_quickack",
        "rt_common",
        "rt_threaded",
        "tcp_accept",
        "tcp_accept_ready",
        "tcp_connect",
        "tcp_echo",
        "tcp_into_split",
        "tcp_into_std",
        "tcp_peek",
        "tcp_shutdown",
        "tcp_socket",
        "tcp_split",
        "tcp_stream",
        "udp",
    ];
    let mut arguments = vec!["--features", "full,test-util"];
    arguments.extend(PARTS.iter().flat_map(|part| ["--test", part]));
    let suite = Crate {
        programs: programs_of("tokio", "", &arguments),
    };
    judge("tokio", &suite, &[], 50);
}

/// The name of a test program, without cargo's hash.
fn stem(program: &Path) -> &str {
    let name = program.file_name().and_then(|name| name.to_str()).unwrap();
    name.rsplit_once('-').unwrap().0
}

/// Builds the tests of a crate that the workspace depends on.
fn programs_of(package: &str, flags: &str, arguments: &[&str]) -> Vec<PathBuf> {
    let cargo = || Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let metadata = read(cargo().args(["metadata", "--format-version", "1", "--locked"]));
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let found = packages.iter().find(|it| it["name"] == package);
    let manifest = found.and_then(|it| it["manifest_path"].as_str()).unwrap();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(package);
    let messages = read(
        cargo()
            .args(["test", "--no-run", "--locked", "--message-format", "json"])
            .args(["--manifest-path", manifest, "--target-dir"])
            .arg(directory)
            .args(arguments)
            .env("RUSTFLAGS", flags),
    );
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        // Examples are built with them.
        let is_test = message["profile"]["test"] == true;
        is_test.then_some(())?;
        Some(PathBuf::from(message["executable"].as_str()?))
    };
    messages.lines().filter_map(executable).collect()
}

fn tests_of(programs: &[PathBuf]) -> Vec<(PathBuf, String)> {
    let of_program = |program: &PathBuf| {
        let listed = read(Command::new(program).args(["--list", "--format", "terse"]));
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        let tests: Vec<_> = names
            .map(|name| (program.clone(), name.to_owned()))
            .collect();
        tests
    };
    programs.iter().flat_map(of_program).collect()
}

fn read(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {words}");
    String::from_utf8(output.stdout).unwrap()
}
