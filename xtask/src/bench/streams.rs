//! One stream as fast as it goes: iperf3 on the kernel's sockets, whose segments the devices cut
//! and merge or not, and with libvma at the sender, at the receiver and at both.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testkit::{Namespace, Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

const SECONDS: u32 = 3;
const TIMEOUT: Duration = Duration::from_secs(20);

/// Who has libvma, and whether the devices cut and merge segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    name: &'static str,
    sender: bool,
    receiver: bool,
    segmentation: bool,
}

const fn case(name: &'static str, sender: bool, receiver: bool, segmentation: bool) -> Case {
    Case {
        name,
        sender,
        receiver,
        segmentation,
    }
}

const CASES: [Case; 8] = [
    case("kernel", false, false, true),
    case("libvma sends", true, false, true),
    case("libvma receives", false, true, true),
    case("libvma at both ends", true, true, true),
    case("kernel, no offload", false, false, false),
    case("libvma sends, no offload", true, false, false),
    case("libvma receives, no offload", false, true, false),
    case("libvma at both ends, no offload", true, true, false),
];

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    setup::ensure(Whom::Loading)?;
    let built = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let library = built.path("vma")?;
    let home = tempfile::Builder::new().prefix("vma-streams-").tempdir()?;
    let mut rates = vec![Vec::new(); CASES.len()];
    for number in 1..=options.rounds {
        for (case, rates) in CASES.iter().zip(&mut rates) {
            interrupt::check()?;
            rates.push(measure(case, library, home.path())?);
        }
        say(format_args!("  round {number} of {}", options.rounds));
    }
    let mut rows = vec![row!["one stream, Gbit/s", "least", "median", "most"]];
    for (case, rates) in CASES.iter().zip(&rates) {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        rows.push(row![
            case.name,
            format!("{least:.1}"),
            format!("{:.1}", median(rates.iter().copied())),
            format!("{most:.1}")
        ]);
    }
    print(&format!(
        "\n{} rounds of {SECONDS} s, a CPU for each end\n\n{}",
        options.rounds,
        layout(&rows)
    ))
}

/// Whether a program has libvma, and where that publishes what it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Preload<'a> {
    pub(super) library: Option<&'a Path>,
    pub(super) home: &'a Path,
}

impl Preload<'_> {
    /// A program in a namespace, on these CPUs.
    pub(super) fn command(self, namespace: &Namespace, cpus: &str, program: &Path) -> Command {
        let mut command = namespace.command("taskset");
        command.args(["-c", cpus]);
        if let Some(library) = self.library {
            let mut preload = OsString::from("LD_PRELOAD=");
            preload.push(library);
            command.arg("env").arg(preload);
        }
        command
            .arg(program)
            .env("VMA_STATS_SHMEM_DIR", self.home)
            .env("VMA_TRACELEVEL", "error");
        command
    }
}

/// Gbit/s that arrive.
fn measure(case: &Case, library: &Path, home: &Path) -> Result<f64, Failure> {
    let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
    pair.a.set_segmentation("va", case.segmentation)?;
    pair.b.set_segmentation("vb", case.segmentation)?;
    let address = Pair::ADDRESS_B.to_string();
    let preloads = |has| Preload {
        library: if has { Some(library) } else { None },
        home,
    };
    let iperf3 = Path::new("iperf3");
    let mut server = preloads(case.receiver).command(&pair.b, "1", iperf3);
    server.args(["--server", "--one-off", "--forceflush", "--bind", &address]);
    let mut server = Running::start(server)?;
    if !server.wait_for_output("listening", TIMEOUT) {
        return Err(Failure::Reason(format!(
            "{}: {}",
            case.name,
            server.stderr()
        )));
    }
    let mut client = preloads(case.sender).command(&pair.a, "0", iperf3);
    client
        .args(["--json", "--client", &address])
        .args(["--time", &SECONDS.to_string()]);
    let finished = Running::start(client)?.wait(TIMEOUT)?;
    rate(&finished.stdout).ok_or_else(|| Failure::Reason(format!("{}: {finished:?}", case.name)))
}

/// Of what the receiver says of all streams, in Gbit/s.
fn rate(report: &str) -> Option<f64> {
    let (_, sum) = report.split_once("\"sum_received\":")?;
    let (_, value) = sum.split_once("\"bits_per_second\":")?;
    let end = value.find([',', '}', '\n'])?;
    let rate: f64 = value.get(..end)?.trim().parse().ok()?;
    (rate > 0.0).then_some(rate / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_the_rate() {
        let report = "{\"sum_sent\": {\"bits_per_second\": 1},\n\"sum_received\":\t{\n\"bytes\": 3,\n\
                      \"bits_per_second\":\t2.5e9,\n\"sender\": true}}";
        assert_eq!(rate(report), Some(2.5));
        assert_eq!(rate("{\"error\": \"refused\"}"), None);
    }
}
