//! Servers with a thread for each connection: a packet wakes the thread that it is for, not all
//! that sleep. CPU time and rates with 1, 50 and 300 idle threads, against the kernel in the same
//! run.

use std::path::Path;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Skip, or_skip, panic_unless_paused, preloaded};

const LIMIT: Duration = Duration::from_secs(60);
/// Other tests run beside this one: one quiet comparison of several is enough.
const ATTEMPTS: u32 = 6;
const EXCHANGES: &str = "1000";
/// Threads sleep at once: what they cost asleep is looked at.
const WITHOUT_POLLING: [(&str, &str); 2] = [("VMA_RX_POLL", "1"), ("VMA_SELECT_POLL", "0")];

/// What a run has shown.
#[derive(Clone, Copy, Debug)]
struct Seen {
    cpu_usec: f64,
    median_nsec: f64,
    rate: f64,
}

/// With the library, as a multiple of the kernel's.
#[derive(Debug)]
struct Factors {
    /// The process's own time. The kernel receives in the peer's softirq on veth, which is not
    /// counted; the library does in the process.
    cpu: f64,
    median: f64,
    rate: f64,
}

/// Waking all of them took 14 to 20 times the CPU time, 9 times the median and a tenth of the rate.
/// Without optimisation the library's own part is several times as long.
fn is_within(factors: &Factors) -> bool {
    let (cpu, median, rate) = match testkit::libvma_is_optimised() {
        true => (5.0, 3.0, 0.2),
        false => (20.0, 8.0, 0.1),
    };
    factors.cpu < cpu && factors.median < median && factors.rate > rate
}

fn run(program: &Path, way: &str, idle: u32, with_library: bool) -> Result<Seen, Skip> {
    let pair = Namespaces::pair()?;
    let (address, port) = (Pair::ADDRESS_B.to_string(), "7710");
    let command = |namespace: &Namespace| match with_library {
        true => preloaded(namespace, program).unwrap(),
        false => namespace.command(program),
    };
    let mut server = command(&pair.b);
    server.args(["serve", &address, port, way]);
    server.envs(WITHOUT_POLLING);
    let mut server = testkit::Running::start(server).unwrap();
    assert!(
        server.wait_for_output("ready", LIMIT),
        "{}",
        server.stderr()
    );
    let mut client = pair.a.command(program);
    client.args(["ask", &address, port, &idle.to_string(), EXCHANGES]);
    let asked = testkit::Running::start(client).unwrap();
    let asked = asked.wait(LIMIT).unwrap();
    assert!(asked.status.success(), "{asked:?} {}", server.stderr());
    drop(server);
    let mut numbers = asked
        .stdout
        .split_whitespace()
        .map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    Ok(Seen {
        cpu_usec: next(),
        median_nsec: next(),
        rate: next(),
    })
}

#[allow(clippy::print_stdout, reason = "what was measured")]
fn compare(way: &str) {
    let _turn = crate::turn();
    panic_unless_paused(|| {
        let program = testkit::c_program("herd");
        for idle in [1, 50, 300] {
            let mut before = Vec::new();
            loop {
                let kernel = or_skip!(run(&program, way, idle, false));
                let library = or_skip!(run(&program, way, idle, true));
                let factors = Factors {
                    cpu: library.cpu_usec / kernel.cpu_usec,
                    median: library.median_nsec / kernel.median_nsec,
                    rate: library.rate / kernel.rate,
                };
                if is_within(&factors) {
                    println!(
                        "{way}, {idle} idle: {factors:.2?}, {library:.1?}, kernel {kernel:.1?}"
                    );
                    break;
                }
                before.push(factors);
                assert!(
                    before.len() < ATTEMPTS as usize,
                    "{way}, {idle} idle: {before:.2?}"
                );
            }
        }
    });
}

#[test]
fn threads_that_receive() {
    compare("recv");
}

#[test]
fn threads_that_poll() {
    compare("poll");
}

#[test]
fn threads_that_select() {
    compare("select");
}

#[test]
fn threads_that_have_a_set_each() {
    compare("epoll");
}
