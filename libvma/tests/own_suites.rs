//! Test suites of others' own, with the library: what they ask of sockets holds past the kernel, too.
//!
//! They talk to themselves at 127.0.0.1, which is no interface of ours. So their addresses become one of a link, whose far end sends
//! back what comes, with the addresses swapped (`c/turned.c`). Each test is a process of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, thread};

use serde_json::Value;
use testkit::{Finished, Namespaces, Pair, RawLink, Running, or_skip};

const OWN: &str = "10.77.0.2";
/// Nobody's.
const FAR: &str = "10.77.0.99";
const TIMEOUT: Duration = Duration::from_secs(60);
/// Of nineteen tests thirteen make connections.
const OURS_MIN: u32 = 10;
/// What the library says of a connection that it has.
const IS_OURS: &str = "past the kernel by";

/// The waits of the crate `polling`, which async-io and smol stand on, with both back-ends of rustix: instructions of its own, and the
/// C library's functions.
#[test]
#[ignore = "builds another crate, twice"]
fn polling() {
    let turned = or_skip!(Turned::new());
    for flags in ["", "--cfg rustix_use_libc"] {
        let programs = programs_of("polling", flags);
        let (mut wrong, mut ours) = (String::new(), 0);
        for (program, test) in tests_of(&programs) {
            let [bare, with] = [false, true].map(|with| turned.run(&program, &test, with));
            assert!(bare.status.success(), "{test} on the kernel: {bare:#?}");
            ours += u32::from(with.stderr.contains(IS_OURS));
            if !with.status.success() {
                wrong += &format!("\n=== {test}\n{}{}", with.stdout, with.stderr);
            }
        }
        assert!(wrong.is_empty(), "with \"{flags}\":{wrong}");
        assert!(
            ours >= OURS_MIN,
            "with \"{flags}\": only {ours} had connections past the kernel"
        );
    }
}

/// A link whose far end sends everything back.
struct Turned {
    pair: Pair,
    shim: PathBuf,
}

impl Turned {
    fn new() -> Result<Self, testkit::Skip> {
        let pair = Namespaces::pair()?;
        for (end, link) in [(&pair.a, "va"), (&pair.b, "vb")] {
            end.make_whole_frames(link).unwrap();
        }
        let far = RawLink::open(&pair.a, "va").unwrap();
        let mac = far.mac().map(|octet| format!("{octet:02x}")).join(":");
        let neighbour = ["neighbour", "add", FAR, "lladdr", &mac, "dev", "vb"];
        pair.b.ip(&neighbour).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/turned.c");
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let shim = testkit::compile_c_with(&source, directory, &["-shared", "-fPIC"]).unwrap();
        Ok(Self { pair, shim })
    }

    /// Runs one test, with the library or without.
    fn run(&self, program: &Path, test: &str, with: bool) -> Finished {
        let mut command = match with {
            true => testkit::preloaded(&self.pair.b, program).unwrap(),
            false => self.pair.b.command(program),
        };
        let mut preloaded = vec![self.shim.clone()];
        if with {
            preloaded.push(testkit::libvma_path().unwrap());
            command.env("VMA_TRACELEVEL", "debug");
        }
        command
            .env("LD_PRELOAD", env::join_paths(preloaded).unwrap())
            .envs([("TURNED_OWN", OWN), ("TURNED_FAR", FAR)])
            .args(["--exact", test, "--nocapture"]);
        let far = RawLink::open(&self.pair.a, "va").unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| send_back(&far, &is_over));
            let finished = Running::start(command).unwrap().wait(TIMEOUT);
            is_over.store(true, Ordering::Relaxed);
            finished.unwrap_or_else(|error| panic!("{test}: {error}"))
        })
    }
}

/// Sends each IPv4 packet to the far address back, as coming from there. Its checksums stay right.
fn send_back(far: &RawLink, is_over: &AtomicBool) {
    let address: std::net::Ipv4Addr = FAR.parse().unwrap();
    while !is_over.load(Ordering::Relaxed) {
        let wanted = |frame: &[u8]| frame.get(30..34) == Some(&address.octets());
        let received = far.receive_matching(Duration::from_millis(20), wanted);
        let Some(mut frame) = received.unwrap() else {
            continue;
        };
        let (to, from) = frame.split_at_mut(6);
        to.swap_with_slice(&mut from[..6]);
        let (from, to) = frame.split_at_mut(30);
        from[26..].swap_with_slice(&mut to[..4]);
        far.send(&frame).unwrap();
    }
}

/// Builds the tests of a crate that the workspace depends on.
fn programs_of(package: &str, flags: &str) -> Vec<PathBuf> {
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
