//! What thousands of sockets cost, with the library, open and idle.

use std::path::Path;
use std::time::Duration;

use testkit::{Namespaces, Pair, Running, compile_c, or_skip, panic_unless_paused, preloaded};

const LIMIT: Duration = Duration::from_secs(60);

/// CPU time in microseconds: to open so many sockets, and in a second while they are idle.
fn cost(pair: &Pair, count: u32, kind: &str) -> (f64, f64) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/many.c");
    let program = compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let mut command = preloaded(&pair.b, &program).unwrap();
    command.args([&count.to_string(), kind]);
    let finished = Running::start(command).unwrap().wait(LIMIT).unwrap();
    assert!(finished.status.success(), "{finished:?}");
    let (open, idle) = finished.stdout.trim().split_once(' ').unwrap();
    (open.parse().unwrap(), idle.parse().unwrap())
}

/// The kernel has no list of the sockets of one port: to ask who else has it costs as much as there are sockets.
#[test]
#[allow(clippy::print_stdout, reason = "what was measured")]
fn sockets_that_may_share_their_ports() {
    const COUNT: u32 = 2000;
    let pair = or_skip!(Namespaces::pair());
    panic_unless_paused(|| {
        let (plain, _) = cost(&pair, COUNT, "plain");
        let (open, idle) = cost(&pair, COUNT, "reuse");
        println!(
            "{plain} us for {COUNT} plain ones, {open} us for others; idle {idle} us a second"
        );
        assert!(
            open < 6.0 * plain,
            "{open} us, and {plain} us where they may not share"
        );
        // One part of a hundred; other tests run beside this one.
        assert!(idle < 20_000.0, "{idle} us a second while idle");
    });
}
