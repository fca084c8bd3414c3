//! More polling threads than CPUs: a thread whose CPU others need sleeps instead of polling, so
//! that a round trip takes what it takes on the kernel, not a time slice of the scheduler.

use std::path::Path;
use std::time::Duration;

use testkit::{Namespaces, Pair, or_skip, panic_unless_paused, preloaded};

const LIMIT: Duration = Duration::from_secs(60);
/// What a round trip may take with the library, as a multiple of the kernel's: the median and the
/// 99th percentile. A time slice is a thousand round trips. Without optimisation the library's own
/// part is several times as long, and a round trip is often interrupted.
fn factors_max(way: &str) -> [f64; 2] {
    if testkit::libvma_is_optimised() {
        // Of four threads, none is woken for another's datagrams, which costs 1.0; for each in
        // turn, every second one is. On processors whose kernel is fast at this others take 1.7 and
        // 4 times as long.
        match way {
            "threads" => [1.9, 5.0],
            _ => [2.5, 8.0],
        }
    } else {
        [12.0, f64::INFINITY]
    }
}
/// Other tests run beside this one: one quiet comparison of several is enough.
const ATTEMPTS: u32 = 8;

/// Round trips in nanoseconds with both ends on one CPU: the median and the 99th percentile.
fn round_trips(
    program: &Path,
    way: &str,
    variables: &[(&str, &str)],
    with_library: bool,
) -> Result<[f64; 2], testkit::Skip> {
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
    let (way, each) = match way.strip_suffix(" each") {
        Some(way) => (way, &["each"][..]),
        None => (way, &[][..]),
    };
    let echo = command(&pair.b, &["echo", &address, port, way]);
    let mut echo = testkit::Running::start(echo).unwrap();
    assert!(echo.wait_for_output("ready", LIMIT), "{}", echo.stderr());
    // The first ones find the neighbour, and that the CPU is shared.
    let ask = [&["ask", &address, port, way, "2000"], each].concat();
    let ask = command(&pair.a, &ask);
    let asked = testkit::Running::start(ask).unwrap().wait(LIMIT).unwrap();
    assert!(asked.status.success(), "{asked:?}");
    echo.wait(LIMIT).unwrap();
    let mut times = asked
        .stdout
        .split_whitespace()
        .map(|time| time.parse().unwrap());
    Ok([times.next().unwrap(), times.next().unwrap()])
}

#[allow(clippy::print_stdout, reason = "what was measured")]
fn compare(way: &str, variables: &[(&str, &str)]) {
    let _turn = crate::turn();
    panic_unless_paused(|| {
        let program = testkit::c_program("shared_cpu");
        let mut seen = Vec::new();
        for _ in 0..ATTEMPTS {
            let kernel = or_skip!(round_trips(&program, way, variables, false));
            let library = or_skip!(round_trips(&program, way, variables, true));
            let factors = [library[0] / kernel[0], library[1] / kernel[1]];
            let [median, high] = factors_max(way);
            if factors[0] < median && factors[1] < high {
                println!("{way} {variables:?}: {factors:.2?} of the kernel's, after {seen:.2?}");
                return;
            }
            seen.push(factors);
        }
        panic!("{way} {variables:?}: {seen:.2?} of the kernel's");
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

#[test]
fn four_that_have_a_set_each() {
    compare("threads", &[]);
}

#[test]
fn four_that_have_a_set_each_and_take_turns() {
    compare("threads each", &[]);
}
