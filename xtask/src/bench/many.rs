//! What sockets, groups, listeners, addresses and threads cost by the thousand, on the kernel's
//! sockets and with libvma: linear at most.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{Cost, Namespaces, Pair, Running};

use crate::arguments::BenchOptions;
use crate::bench::streams::Preload;
use crate::bench::verdict::{self, Limit, Verdict};
use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::median::median;
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::table::{layout, row};

const TIMEOUT: Duration = Duration::from_secs(120);
/// How many there are of each kind.
const COUNTS: [u32; 3] = [1, 100, 10_000];
/// Of what costs the kernel a look at each of the others, too.
const COUNTS_SQUARE: [u32; 3] = [1, 100, 1000];
/// By how much more one may cost among the most than among the fewer.
const GROWTH_MAX: f64 = 4.0;
/// Microseconds of CPU time in a second in which nothing happens: one part of a hundred.
const IDLE_MAX_USEC: f64 = 10_000.0;

/// A kind that `tests/c/many.c` knows, and how many addresses the host has beside its own.
struct Kind {
    name: &'static str,
    word: &'static str,
    counts: [u32; 3],
    addresses: u32,
}

const fn kind(name: &'static str, word: &'static str, addresses: u32) -> Kind {
    Kind {
        name,
        word,
        counts: COUNTS,
        addresses,
    }
}

const KINDS: [Kind; 10] = [
    kind("datagram sockets", "plain", 0),
    kind("the same, SO_REUSEADDR", "reuse", 0),
    kind("groups at a port, 20 a socket", "groups", 0),
    kind("feeds at a port, MULTICAST_ALL off", "feeds", 0),
    Kind {
        counts: COUNTS_SQUARE,
        ..kind("feeds at a port", "all", 0)
    },
    kind("brief sockets, one address", "brief", 0),
    kind("the same, 250 addresses", "brief", 249),
    kind("brief listeners, one address", "listeners", 0),
    kind("the same, 250 addresses", "listeners", 249),
    Kind {
        counts: COUNTS_SQUARE,
        ..kind("threads in recv, a socket each", "threads", 0)
    },
];

pub(super) fn run(options: &BenchOptions) -> Result<(), Failure> {
    setup::ensure(Whom::Measuring)?;
    let library = cargo::build(&["build", "--release", "--package", "libvma"])?;
    let library = library.path("vma")?;
    let home = tempfile::Builder::new().prefix("vma-many-").tempdir()?;
    let program = cargo::c_program("many", home.path(), &[])?;
    let bench = Bench {
        program,
        library,
        home: home.path(),
        rounds: options.rounds,
    };
    let head = row![
        "CPU time for each, us",
        "",
        "open",
        "",
        "",
        "close",
        "",
        "",
        "idle"
    ];
    let counts = row!["", "", "1", "100", "most", "1", "100", "most", "us/s"];
    let mut rows = vec![head, counts];
    let mut verdicts = Vec::new();
    for kind in &KINDS {
        for (who, library) in [("kernel", None), ("libvma", Some(bench.library))] {
            let costs = bench.measure(kind, library)?;
            rows.push(line(kind, who, &costs));
            if library.is_some() {
                verdicts.extend(judge(&costs));
            }
        }
        say(format_args!("  {}", kind.name));
    }
    print(&format!(
        "\nmedians of {} runs; most: 10,000, or 1,000 of feeds at a port and of threads\n\n{}\n\n{}",
        options.rounds,
        layout(&rows),
        verdict::lines(&verdicts)
    ))?;
    verdict::require(options.check, &verdicts)
}

struct Bench<'a> {
    program: PathBuf,
    library: &'a Path,
    home: &'a Path,
    rounds: u32,
}

impl Bench<'_> {
    /// The costs of each count.
    fn measure(&self, kind: &Kind, library: Option<&Path>) -> Result<Vec<Cost>, Failure> {
        let pair = Namespaces::pair().map_err(|skip| Failure::Reason(skip.to_string()))?;
        let add = |host: u32| {
            format!(
                "address add 10.78.{}.{}/16 dev vb\n",
                host / 200,
                host % 200 + 1
            )
        };
        let addresses: String = (0..kind.addresses).map(add).collect();
        pair.b
            .ip_batch(&addresses)
            .map_err(|error| Failure::Reason(error.to_string()))?;
        let of_count = |count: &u32| {
            let runs = (0..self.rounds).map(|_| self.run_once(&pair, kind, *count, library));
            let runs = runs.collect::<Result<Vec<_>, _>>()?;
            let middle = |of: fn(&Cost) -> f64| median(runs.iter().map(of)) / f64::from(*count);
            Ok(Cost {
                open: middle(|it| it.open),
                idle: median(runs.iter().map(|it| it.idle)),
                close: middle(|it| it.close),
            })
        };
        kind.counts.iter().map(of_count).collect()
    }

    fn run_once(
        &self,
        pair: &Pair,
        kind: &Kind,
        count: u32,
        library: Option<&Path>,
    ) -> Result<Cost, Failure> {
        interrupt::check()?;
        let preload = Preload {
            library,
            home: self.home,
        };
        let mut command = preload.command(&pair.b, "0,1", &self.program);
        command.args([&count.to_string(), kind.word]);
        let finished = Running::start(command)?.wait(TIMEOUT)?;
        let cost = Cost::parse(&finished.stdout).filter(|_| finished.status.success());
        cost.ok_or_else(|| Failure::Reason(format!("{}: {finished:?}", kind.name)))
    }
}

fn line(kind: &Kind, who: &str, costs: &[Cost]) -> Vec<String> {
    let name = if who == "kernel" { kind.name } else { "" };
    let mut cells = row![name, who];
    cells.extend(costs.iter().map(|it| format!("{:.1}", it.open)));
    cells.extend(costs.iter().map(|it| format!("{:.1}", it.close)));
    cells.extend(costs.last().map(|it| format!("{:.0}", it.idle)));
    cells
}

/// Whether what one costs does not grow with their number, and nothing is done while nothing
/// happens.
fn judge(costs: &[Cost]) -> Vec<Verdict> {
    let [_, fewer, most] = costs else {
        return Vec::new();
    };
    // What takes no time is the clock's.
    let growth = |fewer: f64, most: f64| most / fewer.max(1.0);
    vec![
        Verdict {
            name: "open, among the most / among 100",
            value: growth(fewer.open, most.open),
            limit: Limit::AtMost(GROWTH_MAX),
        },
        Verdict {
            name: "close, among the most / among 100",
            value: growth(fewer.close, most.close),
            limit: Limit::AtMost(GROWTH_MAX),
        },
        Verdict {
            name: "idle, us of CPU time a second",
            value: most.idle,
            limit: Limit::AtMost(IDLE_MAX_USEC),
        },
    ]
}
