//! Connections that last for one request, and those that are only accepted: on the kernel's
//! sockets, and with libvma at the server, at the client and at both. And how long programs take
//! that make one connection, or none.

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::bench::streams::Preload;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

/// Connections of one measurement. The client has that many ports, so that none has to be used
/// again.
const COUNT: &str = "10000";
const PORTS: &str = "1024 65000";
const TIMEOUT: Duration = Duration::from_secs(30);

/// Who closes first: what comes after it, TIME-WAIT, is there.
const CLOSERS: [(&str, &str); 3] = [
    ("client closes", "client"),
    ("server closes", "server"),
    ("accepted only", "accept"),
];

/// Who has libvma, and which CPUs both ends have.
#[derive(Clone, Copy, Debug)]
struct Case {
    name: &'static str,
    server: bool,
    client: bool,
    cpus: [&'static str; 2],
}

const fn case(name: &'static str, server: bool, client: bool, cpus: [&'static str; 2]) -> Case {
    Case {
        name,
        server,
        client,
        cpus,
    }
}

/// How many of [`CASES`] are the kernel's.
const KERNELS: usize = 2;
const CASES: [Case; 5] = [
    case("kernel", false, false, ["0", "1"]),
    case("kernel, one CPU", false, false, ["0", "0"]),
    case("libvma at the server", true, false, ["0", "1"]),
    case("libvma at the client", false, true, ["0", "1"]),
    case("libvma at both ends", true, true, ["0", "1"]),
];

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    setup::ensure(Whom::Measuring)?;
    let library = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let example = ["--package", "testkit", "--example", "short_connections"];
    let program = cargo::build(&[&["build", "--release"], &example[..]].concat())?;
    let (library, program) = (library.path("vma")?, program.path("short_connections")?);
    let home = tempfile::Builder::new().prefix("vma-short-").tempdir()?;
    let mut rates = vec![vec![Vec::new(); CASES.len()]; CLOSERS.len()];
    for number in 1..=options.rounds {
        for ((_, closer), rates) in CLOSERS.iter().zip(&mut rates) {
            for (case, rates) in CASES.iter().zip(rates) {
                interrupt::check()?;
                rates.push(measure(case, closer, library, program, home.path())?);
            }
        }
        say(format_args!("  round {number} of {}", options.rounds));
    }
    let head = "connections, thousand/s";
    let mut rows = vec![row![
        head,
        "",
        "least",
        "median",
        "most",
        "of the kernel's",
        "p50 us",
        "p99 us"
    ]];
    for ((closer, _), rates) in CLOSERS.iter().zip(&rates) {
        let best = rates
            .iter()
            .take(KERNELS)
            .map(|measured| median(measured.iter().map(|it| it[0])))
            .fold(0.0, f64::max);
        for (case, measured) in CASES.iter().zip(rates) {
            let rates = measured.iter().map(|it| it[0]);
            let least = rates.clone().fold(f64::INFINITY, f64::min);
            let most = rates.clone().fold(0.0, f64::max);
            let middle = median(rates);
            let [p50, p99] = [1, 2].map(|index| median(measured.iter().map(|it| it[index])));
            rows.push(row![
                case.name,
                closer,
                format!("{:.1}", least / 1e3),
                format!("{:.1}", middle / 1e3),
                format!("{:.1}", most / 1e3),
                format!("{:.2}", middle / best),
                format!("{p50:.0}"),
                format!("{p99:.0}")
            ]);
        }
    }
    let programs = programs(options, library, program, home.path())?;
    print(&format!(
        "\n{} rounds of {COUNT} connections, against the kernel's better line\n\n{}\n\n{programs}",
        options.rounds,
        layout(&rows)
    ))
}

/// Runs of each program in a round.
const RUNS: u32 = 5;
/// How soon the next program begins: the kernel has ended what the last one has left to it.
const PAUSE: Duration = Duration::from_millis(60);

/// What programs take from their beginning to their end, without libvma and with it, in turn.
fn programs(
    options: &BenchOptions,
    library: &Path,
    program: &Path,
    home: &Path,
) -> Result<String, Failure> {
    let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
    let address = format!("{}:9", Pair::ADDRESS_B);
    let preload = |has: bool| Preload {
        library: has.then_some(library),
        home,
    };
    let mut server = preload(false).command(&pair.b, "1", program);
    server.args(["server", &address, COUNT, "client"]);
    let mut server = Running::start(server)?;
    if !server.wait_for_output("listening", TIMEOUT) {
        return Err(Failure::Reason(server.stderr()));
    }
    let once = ["once", &address, "1", "client"];
    let cases: [(&str, &Path, &[&str]); 2] = [
        ("one connection", program, &once),
        ("no socket", Path::new("true"), &[]),
    ];
    let mut rows = vec![row!["a program's time, ms", "", "least", "median", "most"]];
    for (what, program, arguments) in cases {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..options.rounds * RUNS {
            for (has_library, times) in [false, true].into_iter().zip(&mut times) {
                interrupt::check()?;
                std::thread::sleep(PAUSE);
                let mut command = preload(has_library).command(&pair.a, "0,1", program);
                command.args(arguments);
                let begun = Instant::now();
                let finished = Running::start(command)?.wait(TIMEOUT)?;
                times.push(begun.elapsed().as_secs_f64() * 1e3);
                if !finished.status.success() {
                    return Err(Failure::Reason(format!("{what}: {finished:?}")));
                }
            }
        }
        for (name, times) in ["kernel", "libvma"].into_iter().zip(&times) {
            let least = times.iter().copied().fold(f64::INFINITY, f64::min);
            let most = times.iter().copied().fold(0.0, f64::max);
            let middle = median(times.iter().copied());
            let in_msec = |time: f64| format!("{time:.1}");
            rows.push(row![
                name,
                what,
                in_msec(least),
                in_msec(middle),
                in_msec(most)
            ]);
        }
    }
    Ok(layout(&rows))
}

/// Connections a second, and of one the median and the 99th percentile of microseconds.
fn measure(
    case: &Case,
    closer: &str,
    library: &Path,
    program: &Path,
    home: &Path,
) -> Result<[f64; 3], Failure> {
    let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
    let ports = format!("net.ipv4.ip_local_port_range={PORTS}");
    let mut sysctl = pair.a.command("sysctl");
    sysctl.args(["-q", "-w", &ports]);
    Running::start(sysctl)?.wait(TIMEOUT)?;
    let address = format!("{}:9", Pair::ADDRESS_B);
    let preload = |has: bool| Preload {
        library: has.then_some(library),
        home,
    };
    let mut server = preload(case.server).command(&pair.b, case.cpus[1], program);
    server.args(["server", &address, COUNT, closer]);
    let mut server = Running::start(server)?;
    if !server.wait_for_output("listening", TIMEOUT) {
        return Err(Failure::Reason(format!(
            "{}: {}",
            case.name,
            server.stderr()
        )));
    }
    let mut client = preload(case.client).command(&pair.a, case.cpus[0], program);
    client.args(["client", &address, COUNT, closer]);
    let finished = Running::start(client)?.wait(TIMEOUT)?;
    let numbers: Vec<f64> = finished
        .stdout
        .split_whitespace()
        .filter_map(|it| it.parse().ok())
        .collect();
    let numbers = numbers.try_into();
    numbers.map_err(|_| Failure::Reason(format!("{}: {finished:?}", case.name)))
}
