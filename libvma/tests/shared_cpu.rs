//! More polling threads than CPUs: a thread whose CPU others need sleeps instead of polling, so that a round trip takes what
//! it takes on the kernel, not a time slice of the scheduler.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Namespaces, Pair, or_skip, panic_unless_paused, preloaded};

const LIMIT: Duration = Duration::from_secs(60);
/// A time slice is a thousand times as long as a round trip of the kernel's. What is in between is measured by `cargo xtask
/// bench`: other tests run beside this one.
const FACTOR_MAX: f64 = 50.0;

/// Median round trip in nanoseconds with both ends on one CPU.
fn median(
    program: &Path,
    way: &str,
    variables: &[(&str, &str)],
    with_library: bool,
) -> Result<f64, testkit::Skip> {
    let pair = Namespaces::pair()?;
    // SAFETY: sched_getcpu has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() }.to_string();
    let command = |namespace: &testkit::Namespace, arguments: &[&str]| {
        let mut command = if with_library {
            preloaded(namespace, Path::new("taskset")).unwrap()
        } else {
            namespace.command("taskset")
        };
        command.args(["-c", &cpu]).arg(program).args(arguments);
        command.envs(variables.iter().copied());
        command
    };
    let address = Pair::ADDRESS_B.to_string();
    let port = "7700";
    let echo = command(&pair.b, &["echo", &address, port, way]);
    let mut echo = testkit::Running::start(echo).unwrap();
    assert!(echo.wait_for_output("ready", LIMIT), "{}", echo.stderr());
    // The first ones find the neighbour, and that the CPU is shared.
    let ask = command(&pair.a, &["ask", &address, port, way, "2000"]);
    let asked = testkit::Running::start(ask).unwrap().wait(LIMIT).unwrap();
    assert!(asked.status.success(), "{asked:?}");
    echo.wait(LIMIT).unwrap();
    Ok(asked.stdout.trim().parse().unwrap())
}

fn compare(way: &str, variables: &[(&str, &str)]) {
    panic_unless_paused(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/shared_cpu.c");
        let program: PathBuf =
            testkit::compile_c(&source, Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
        let kernel = or_skip!(median(&program, way, variables, false));
        let library = or_skip!(median(&program, way, variables, true));
        assert!(
            library < kernel * FACTOR_MAX,
            "{way} {variables:?}: {library} ns with the library, {kernel} ns on the kernel"
        );
    });
}

#[test]
fn two_that_receive() {
    compare("recv", &[]);
}

#[test]
fn two_that_wait_for_events() {
    compare("epoll", &[]);
}

#[test]
fn two_that_poll_for_ever() {
    compare("recv", &[("VMA_SPEC", "latency")]);
}

#[test]
fn two_that_yield() {
    compare(
        "recv",
        &[("VMA_POLL_SHARED_CPU", "1"), ("VMA_RX_POLL_YIELD", "10")],
    );
}
