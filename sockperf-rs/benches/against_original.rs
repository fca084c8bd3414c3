//! Own overhead: ping-pong and throughput over loopback, in turn with the original, each with its
//! own server.
//!
//! `cargo bench -p sockperf-rs --bench against_original [rounds]`, on a quiet machine.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

const OURS: &str = env!("CARGO_BIN_EXE_sockperf-rs");
const ORIGINAL: &str = "/usr/bin/sockperf";
const PORT: u16 = 23_456;

struct Case {
    name: &'static str,
    mode: &'static str,
    arguments: &'static str,
    /// Stands before the number.
    label: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        name: "UDP ping-pong, p50 in usec",
        mode: "pp",
        arguments: "-t 2",
        label: "percentile 50.000 =",
    },
    Case {
        name: "TCP ping-pong, p50 in usec",
        mode: "pp",
        arguments: "-t 2 --tcp",
        label: "percentile 50.000 =",
    },
    Case {
        name: "UDP throughput of 14 bytes, messages/s",
        mode: "tp",
        arguments: "-t 2",
        label: "Message Rate is",
    },
    Case {
        name: "TCP throughput of 1472 bytes, messages/s",
        mode: "tp",
        arguments: "-t 2 -m 1472 --tcp",
        label: "Message Rate is",
    },
];

fn main() -> io::Result<()> {
    let rounds = std::env::args()
        .skip(1)
        .find_map(|word| word.parse().ok())
        .unwrap_or(10);
    let cases = std::env::var("CASES").unwrap_or_default();
    for case in CASES.iter().filter(|case| case.name.contains(&cases)) {
        let (mut ours, mut original) = (Vec::new(), Vec::new());
        for round in 0..rounds {
            // Who is first changes, too.
            let mut programs = [(OURS, &mut ours), (ORIGINAL, &mut original)];
            if round % 2 == 1 {
                programs.reverse();
            }
            for (program, numbers) in programs {
                numbers.push(measure(program, case)?);
            }
        }
        let (ours, original) = (median(&mut ours), median(&mut original));
        writeln!(
            io::stdout(),
            "{}: ours {ours:.3}, original {original:.3}, ratio {:.3} (medians of {rounds})",
            case.name,
            ours / original
        )?;
    }
    Ok(())
}

fn measure(program: &str, case: &Case) -> io::Result<f64> {
    let tcp = if case.arguments.contains("--tcp") {
        "--tcp"
    } else {
        ""
    };
    let mut server = start(
        program,
        &format!("sr -i 127.0.0.1 -p {PORT} {tcp} --uc-reuseaddr"),
    )?;
    thread::sleep(Duration::from_millis(300));
    let line = format!("{} -i 127.0.0.1 -p {PORT} {}", case.mode, case.arguments);
    let output = Command::new(program)
        .args(line.split_whitespace())
        .output()?;
    server.kill()?;
    server.wait()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = text
        .split_once(case.label)
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| io::Error::other(format!("{program} {line}:\n{text}")))
}

fn start(program: &str, arguments: &str) -> io::Result<Child> {
    Command::new(program)
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .spawn()
}

fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let at = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
    if numbers.len().is_multiple_of(2) {
        (at(middle.saturating_sub(1)) + at(middle)) / 2.0
    } else {
        at(middle)
    }
}
