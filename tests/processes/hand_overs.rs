//! Random sequences of what hands connections over: fork, exec, passed and copied descriptors,
//! options, sendfile and children that die of signals, in the midst of traffic whose every octet is
//! checked. What fails says its seed: `HAND_OVERS_SEED` and `HAND_OVERS_COUNT` run it again.

use std::env;
use std::time::Duration;

use testkit::{Comparison, Finished, Pair, Running, echo_streams, or_skip};

/// Where the C program finds a peer that accepts.
const PORT: u16 = 7990;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn run(count: u64, within: Duration) {
    let stage = or_skip!(Comparison::new());
    echo_streams(&stage.pair.a, Pair::ADDRESS_A, PORT).unwrap();
    let program = testkit::c_program("hand_overs");
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number(
        "HAND_OVERS_SEED",
        clock.unwrap().as_secs() % 1_000_000 * 10_000,
    );
    let count = number("HAND_OVERS_COUNT", count);
    let expected = format!("{count} sequences\n");
    // A tenth on the kernel shows that the sequences themselves are right.
    for (library, count) in [(false, count.div_ceil(10)), (true, count)] {
        let mut command = if library {
            testkit::preloaded(&stage.pair.b, &program).unwrap()
        } else {
            stage.pair.b.command(&program)
        };
        command.args([seed.to_string(), count.to_string()]);
        command.env("VMA_TRACELEVEL", "debug");
        let Finished {
            status,
            stdout,
            stderr,
            ..
        } = Running::start(command).unwrap().wait(within).unwrap();
        let log = testkit::log_tail(&stderr);
        assert!(
            status.success(),
            "from seed {seed}, library: {library}: {status}\n{stdout}{log}"
        );
        if library {
            assert_eq!(stdout, expected);
            let accelerated = stderr.matches("past the kernel").count();
            assert!(accelerated > 0, "no connection past the kernel\n{log}");
        }
    }
}

#[test]
fn two_hundred_sequences() {
    run(200, Duration::from_secs(200));
}

#[test]
#[ignore = "takes some minutes"]
fn ten_thousand_sequences() {
    run(10_000, Duration::from_secs(3000));
}
