//! `cargo xtask demo`: the main job, seen once.

use std::path::Path;

use crate::busy::Meter;
use crate::cargo;
use crate::failure::Failure;
use crate::measure::{self, Ends, PING_PONG_BYTES, Protocol, Sockets, Stage};
use crate::needs::Whom;
use crate::output::{print, say};
use crate::setup;
use crate::sockperf::Latency;
use crate::table::{layout, row};

/// Of each protocol.
const ROUNDS: u32 = 3;
const SECONDS: u32 = 2;

pub(crate) fn run() -> Result<(), Failure> {
    measure::require_root("demo")?;
    setup::ensure(Whom::Measuring)?;
    let artifacts = cargo::build(&[
        "build",
        "--release",
        "--package",
        "libvma",
        "--package",
        "vma-stats",
    ])?;
    let (library, vma_stats) = (artifacts.path("vma")?, artifacts.path("vma_stats")?);

    let stage = Stage::new(library.to_owned())?;
    say(format_args!(
        "sockperf ping-pong between two network namespaces, {ROUNDS} rounds of {SECONDS} s each \
         over UDP and over TCP"
    ));
    let mut busy = Meter::default();
    let mut seen = Vec::new();
    for protocol in [Protocol::Udp, Protocol::Tcp] {
        seen.push(measure(&stage, protocol, &mut busy)?);
    }
    drop(stage);
    print(&report(&seen))?;
    busy.warn();
    say(hint(library, vma_stats));
    Ok(())
}

/// What was seen of a protocol.
#[derive(Debug)]
struct Seen {
    protocol: Protocol,
    latencies: Latencies,
    packets: Ends,
}

/// Of each round.
#[derive(Debug, Default)]
struct Latencies {
    kernel: Vec<Latency>,
    one_cpu: Vec<Latency>,
    libvma: Vec<Latency>,
}

fn measure(stage: &Stage, protocol: Protocol, busy: &mut Meter) -> Result<Seen, Failure> {
    let mut latencies = Latencies::default();
    let mut packets = Ends::default();
    for round in 1..=ROUNDS {
        busy.look()?;
        let (kernel, _) = stage.ping_pong(protocol, Sockets::Kernel, SECONDS)?;
        let (one_cpu, _) = stage.ping_pong(protocol, Sockets::KernelOneCpu, SECONDS)?;
        let (libvma, ends) = stage.ping_pong(protocol, Sockets::Libvma, SECONDS)?;
        say(format_args!(
            "  {}, round {round} of {ROUNDS}: p50 {:.2} us on the kernel, {:.2} us on one CPU, \
             {:.2} us with libvma",
            protocol.name(),
            kernel.p50_usec,
            one_cpu.p50_usec,
            libvma.p50_usec
        ));
        latencies.kernel.push(kernel);
        latencies.one_cpu.push(one_cpu);
        latencies.libvma.push(libvma);
        packets.client += ends.client;
        packets.server += ends.server;
    }
    Ok(Seen {
        protocol,
        latencies,
        packets,
    })
}

fn report(seen: &[Seen]) -> String {
    let mut text = format!(
        "\nsockperf ping-pong, {PING_PONG_BYTES} bytes, veth: half round trips in microseconds, \
         medians of {ROUNDS} rounds\n"
    );
    let mut packets = vec![row!["packets with libvma", "offloaded", "OS"]];
    for Seen {
        protocol,
        latencies,
        packets: ends,
    } in seen
    {
        let name = protocol.name();
        text += &format!("\n{}", latency_table(name, latencies));
        for (end, counted) in [("client", ends.client), ("server", ends.server)] {
            packets.push(row![format!("{name} {end}"), counted.offloaded, counted.os]);
        }
    }
    format!("{text}\n{}", layout(&packets))
}

fn latency_table(name: &str, latencies: &Latencies) -> String {
    let [kernel, one_cpu, libvma] = [&latencies.kernel, &latencies.one_cpu, &latencies.libvma]
        .map(|rounds| Latency::median_of(rounds.iter()));
    let faster = kernel.faster(&one_cpu).values();
    let gain = [0, 1, 2].map(|column| faster[column] / libvma.values()[column]);
    let line = |name: &str, values: [f64; 3]| {
        let values = values.map(|value| format!("{value:.2}"));
        [name.to_owned()].into_iter().chain(values).collect()
    };
    let [p50, p99, p999] = Latency::NAMES;
    layout(&[
        row![name, p50, p99, p999],
        line("kernel", kernel.values()),
        line("kernel, both ends on one CPU", one_cpu.values()),
        line("libvma", libvma.values()),
        line("gain over the faster kernel line", gain),
    ])
}

fn hint(library: &Path, vma_stats: &Path) -> String {
    format!(
        "\nWith your own program:  LD_PRELOAD={} VMA_SPEC=latency <program>\n\
         Watch it:               {}",
        library.display(),
        vma_stats.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::Packets;

    #[test]
    fn the_report_holds_medians_ratios_and_packets() {
        let latency = |p50_usec| Latency {
            p50_usec,
            p99_usec: 2.0 * p50_usec,
            p999_usec: 40.0,
        };
        let packets = Ends {
            client: Packets {
                offloaded: 123_456,
                os: 1,
            },
            server: Packets {
                offloaded: 123_457,
                os: 0,
            },
        };
        let latencies = Latencies {
            kernel: vec![latency(50.0), latency(900.0), latency(45.0)],
            one_cpu: vec![latency(10.0), latency(9.0), latency(11.0)],
            libvma: vec![latency(2.0), latency(2.5), latency(1.5)],
        };
        let expected = "
sockperf ping-pong, 64 bytes, veth: half round trips in microseconds, medians of 3 rounds

TCP                                 p50     p99  p99.9
kernel                            50.00  100.00  40.00
kernel, both ends on one CPU      10.00   20.00  40.00
libvma                             2.00    4.00  40.00
gain over the faster kernel line   5.00    5.00   1.00

packets with libvma  offloaded  OS
TCP client              123456   1
TCP server              123457   0
";
        let seen = Seen {
            protocol: Protocol::Tcp,
            latencies,
            packets,
        };
        assert_eq!(report(&[seen]), expected);
    }
}
