//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::output::Loudness;
use crate::package::Libc;

pub(crate) const USAGE: &str = "\
Usage: cargo xtask <command>

  setup [--try]         install what the other commands need, and verify it (as root; otherwise say how); --try: also on
                        a fresh machine, in a clean root
  demo                  sockperf over a veth pair, UDP and TCP, on the kernel and with libvma preloaded
  test [--quick | --long] [--verbose]
                        format, lints, documentation, licences, tests, models, fuzzing, instruction counts, gain
                        over the kernel; --quick: format, lints, unit tests; --long: also what takes an hour.
                        A line a step; --verbose: all that cargo and the tests say, else in target/test.log
  fuzz [--seconds N]    every fuzz target for N seconds (1 to 86400; without it 12, 30 for tcp and segment,
                        5 for preloaded, extra and extra_rings)
  bench [--rounds N] [--json FILE] [--check]
                        latency and throughput against the kernel and against the bare device;
                        N rounds (5 to 1000, default 5), JSON into FILE (default target/bench.json),
                        --check: fail if a number is missed
  bench --services [--service NAME]...
                        answers a second and CPU time of services under load, on the kernel and with libvma: of those
                        that are named, or of all
  bench --everyday [--service NAME]... [--rounds N] [--check] [--quick] [--broker]
                        37 everyday services as their packages ship them, under their usual load generators, on the
                        kernel and with libvma at the server and at both ends (1 to 1000 rounds, default 3); --quick: the
                        eight that test looks at; --broker: beside vmad --broker, services without rights
  bench --streams [--rounds N]
                        how fast one stream of iperf3 is, on the kernel and with libvma at either end and at both
  bench --feed [--rounds N]
                        200 multicast groups on one epoll set at the highest rate that the kernel receives without loss
  bench --rings [--rounds N]
                        how much 1 to 8 threads send, and receive, by the kernel's sockets, by one ring and by up to 8
  bench --many [--rounds N] [--check]
                        what one of 1, 100 and 10,000 sockets, groups, listeners, addresses and threads costs, on the
                        kernel and with libvma
  bench --calls [--rounds N] [--check]
                        round trips through recvfrom, select, poll and epoll against the kernel and the bare device, and
                        how long each takes to wake from a sleep
  bench --throughput [--rounds N] [--check]
                        how many datagrams of 14, 64 and 1472 bytes arrive, one by one and in batches
  bench --short [--rounds N]
                        connections of one request a second, and accepted ones, on the kernel and with libvma
  compare [--rounds N]  what the same work costs by the kernel's sockets in each of their ways, with libvma, with a sockmap
                        and, within a host, by UCX (docs/comparison.md; N rounds, 5 to 1000, default 5)
  instructions [--update]
                        count the instructions of the TCP engine with valgrind and compare them with the
                        committed table; --update: write the table again
  package [--try] [--old-glibc]
                        make DEB and RPM packages in target/packages; --try: also install, upgrade, use and remove them
                        in a clean root; --old-glibc: for glibc 2.28 (RHEL 8, Ubuntu 20.04) and later, by Zig's linker
  machine               tests over VLANs and bonds in virtual machines, whose kernels (Debian's) have them
  docs                  write the generated documents again
";

/// The fewest rounds whose medians are worth reporting.
const LEAST_ROUNDS: u32 = 5;
const MOST_ROUNDS: u32 = 1000;
/// The services are many, and each round runs each five times.
const EVERYDAY_ROUNDS: u32 = 3;

const MOST_FUZZ_SECONDS: u32 = 86_400;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Setup {
        /// In a clean Debian.
        tries: bool,
    },
    Demo,
    Test {
        extent: Extent,
        loudness: Loudness,
    },
    /// Without a number, each target's own time.
    Fuzz {
        seconds: Option<u32>,
    },
    Bench(BenchOptions),
    Compare {
        rounds: u32,
    },
    Instructions {
        update: bool,
    },
    Package {
        libc: Libc,
        /// Try them out, too.
        tries: bool,
    },
    Machine,
    Docs,
}

/// How much `test` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// What takes a minute.
    Quick,
    /// What every change must pass.
    Usual,
    /// What takes too long for every change, too.
    Long,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BenchOptions {
    pub(crate) rounds: u32,
    /// Where the JSON goes; `None` is `bench.json` in cargo's target directory.
    pub(crate) json: Option<PathBuf>,
    /// Whether a missed number is a failure.
    pub(crate) check: bool,
    /// Whether the short form is enough, of what has one.
    pub(crate) quick: bool,
    pub(crate) broker: bool,
    pub(crate) subject: Subject,
    /// Those of the services; all if none is named.
    pub(crate) service: Vec<String>,
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// Datagrams, and parts of the library by themselves.
    Sockets,
    Services,
    /// Services as their packages ship them.
    Everyday,
    /// One stream.
    Streams,
    /// Connections that last for one request.
    Short,
    /// A feed handler.
    Feed,
    /// Threads that send.
    Rings,
    /// Thousands of sockets, groups, addresses and threads.
    Many,
    /// Each of the calls that receive.
    Calls,
    /// As many datagrams as arrive.
    Throughput,
}

impl Default for BenchOptions {
    fn default() -> Self {
        Self {
            rounds: LEAST_ROUNDS,
            json: None,
            check: false,
            quick: false,
            broker: false,
            subject: Subject::Sockets,
            service: Vec::new(),
        }
    }
}

/// Reads the command line, the program's own name first.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Task, Failure> {
    let mut arguments = Parser::from_iter(arguments);
    match arguments.next().map_err(usage_error)? {
        Some(Arg::Value(command)) => {
            let task = match command.to_str() {
                Some("help") => Task::Help,
                Some("demo") => Task::Demo,
                Some("docs") => Task::Docs,
                Some("machine") => Task::Machine,
                Some("test") => return parse_test(&mut arguments),
                Some("setup") => {
                    let tries = parse_try(&mut arguments)?;
                    return Ok(Task::Setup { tries });
                }
                Some("package") => return parse_package(&mut arguments),
                Some("fuzz") => return parse_fuzz(&mut arguments),
                Some("bench") => return parse_bench(&mut arguments),
                Some("compare") => return parse_compare(&mut arguments),
                Some("instructions") => return parse_instructions(&mut arguments),
                _ => {
                    let reason = format!("there is no command {}", command.display());
                    return Err(Failure::Usage(reason));
                }
            };
            match arguments.next().map_err(usage_error)? {
                None => Ok(task),
                Some(other) => Err(usage_error(other.unexpected())),
            }
        }
        Some(Arg::Short('h') | Arg::Long("help")) => Ok(Task::Help),
        Some(other) => Err(usage_error(other.unexpected())),
        None => Err(Failure::Usage("a command is needed".to_owned())),
    }
}

fn parse_test(arguments: &mut Parser) -> Result<Task, Failure> {
    let (mut extent, mut loudness) = (Extent::Usual, Loudness::Line);
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("quick") => extent = Extent::Quick,
            Arg::Long("long") => extent = Extent::Long,
            Arg::Long("verbose") | Arg::Short('v') => loudness = Loudness::Verbose,
            other => return Err(usage_error(other.unexpected())),
        }
    }
    Ok(Task::Test { extent, loudness })
}

fn parse_package(arguments: &mut Parser) -> Result<Task, Failure> {
    let (mut libc, mut tries) = (Libc::Own, false);
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("try") => tries = true,
            Arg::Long("old-glibc") => libc = Libc::Old,
            other => return Err(usage_error(other.unexpected())),
        }
    }
    Ok(Task::Package { libc, tries })
}

/// Nothing or `--try`.
fn parse_try(arguments: &mut Parser) -> Result<bool, Failure> {
    let mut tries = false;
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("try") => tries = true,
            other => return Err(usage_error(other.unexpected())),
        }
    }
    Ok(tries)
}

fn parse_instructions(arguments: &mut Parser) -> Result<Task, Failure> {
    let mut update = false;
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("update") => update = true,
            other => return Err(usage_error(other.unexpected())),
        }
    }
    Ok(Task::Instructions { update })
}

fn parse_fuzz(arguments: &mut Parser) -> Result<Task, Failure> {
    let mut seconds = None;
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("seconds") => {
                let value = arguments.value().map_err(usage_error)?;
                let number = value.parse().map_err(usage_error)?;
                if !(1..=MOST_FUZZ_SECONDS).contains(&number) {
                    let reason = format!("--seconds is 1 to {MOST_FUZZ_SECONDS}");
                    return Err(Failure::Usage(reason));
                }
                seconds = Some(number);
            }
            other => return Err(usage_error(other.unexpected())),
        }
    }
    Ok(Task::Fuzz { seconds })
}

fn parse_compare(arguments: &mut Parser) -> Result<Task, Failure> {
    let mut rounds = LEAST_ROUNDS;
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("rounds") => {
                let value = arguments.value().map_err(usage_error)?;
                rounds = value.parse().map_err(usage_error)?;
            }
            other => return Err(usage_error(other.unexpected())),
        }
    }
    check_rounds(rounds, LEAST_ROUNDS)?;
    Ok(Task::Compare { rounds })
}

fn check_rounds(rounds: u32, least: u32) -> Result<(), Failure> {
    if (least..=MOST_ROUNDS).contains(&rounds) {
        return Ok(());
    }
    let reason = format!("--rounds is {least} to {MOST_ROUNDS}");
    Err(Failure::Usage(reason))
}

fn parse_bench(arguments: &mut Parser) -> Result<Task, Failure> {
    let mut options = BenchOptions::default();
    let mut rounds = None;
    while let Some(argument) = arguments.next().map_err(usage_error)? {
        match argument {
            Arg::Long("rounds") => {
                let value = arguments.value().map_err(usage_error)?;
                rounds = Some(value.parse().map_err(usage_error)?);
            }
            Arg::Long("json") => {
                options.json = Some(arguments.value().map_err(usage_error)?.into());
            }
            Arg::Long("check") => options.check = true,
            Arg::Long("quick") => options.quick = true,
            Arg::Long("broker") => options.broker = true,
            Arg::Long("streams") => options.subject = Subject::Streams,
            Arg::Long("short") => options.subject = Subject::Short,
            Arg::Long("feed") => options.subject = Subject::Feed,
            Arg::Long("rings") => options.subject = Subject::Rings,
            Arg::Long("many") => options.subject = Subject::Many,
            Arg::Long("calls") => options.subject = Subject::Calls,
            Arg::Long("throughput") => options.subject = Subject::Throughput,
            Arg::Long("services") => options.subject = Subject::Services,
            Arg::Long("everyday") => options.subject = Subject::Everyday,
            Arg::Long("service") => {
                let name = arguments.value().and_then(ValueExt::string);
                options.service.push(name.map_err(usage_error)?);
                if options.subject != Subject::Everyday {
                    options.subject = Subject::Services;
                }
            }
            other => return Err(usage_error(other.unexpected())),
        }
    }
    let (least, usual) = match options.subject {
        Subject::Everyday => (1, EVERYDAY_ROUNDS),
        Subject::Many => (1, LEAST_ROUNDS),
        _ => (LEAST_ROUNDS, LEAST_ROUNDS),
    };
    if (options.quick || options.broker) && options.subject != Subject::Everyday {
        let reason = "--quick and --broker are for --everyday";
        return Err(Failure::Usage(reason.to_owned()));
    }
    options.rounds = rounds.unwrap_or(usual);
    check_rounds(options.rounds, least)?;
    Ok(Task::Bench(options))
}

fn usage_error(error: impl Into<lexopt::Error>) -> Failure {
    Failure::Usage(error.into().to_string())
}

#[cfg(test)]
mod tests;
