//! `cargo xtask demo`: the main job, seen once.

use std::path::Path;

use crate::cargo;
use crate::failure::Failure;
use crate::interrupt;
use crate::measure::{self, Ends, PING_PONG_BYTES, Sockets, Stage};
use crate::needs::Purpose;
use crate::output::{print, say};
use crate::setup;
use crate::sockperf::Latency;
use crate::table::{layout, row};

const ROUNDS: u32 = 5;
const SECONDS: u32 = 2;

pub(crate) fn run() -> Result<(), Failure> {
    measure::require_root("demo")?;
    setup::ensure(Purpose::Measuring)?;
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
        "sockperf ping-pong between two network namespaces, {ROUNDS} rounds of {SECONDS} s each"
    ));
    let (mut kernel, mut libvma) = (Vec::new(), Vec::new());
    let mut packets = Ends::default();
    for round in 1..=ROUNDS {
        interrupt::check()?;
        let (latency, _) = stage.ping_pong(Sockets::Kernel, SECONDS)?;
        kernel.push(latency);
        interrupt::check()?;
        let (latency, ends) = stage.ping_pong(Sockets::Libvma, SECONDS)?;
        libvma.push(latency);
        packets.client += ends.client;
        packets.server += ends.server;
        say(format_args!(
            "  round {round} of {ROUNDS}: p50 {:.2} us on the kernel, {:.2} us with libvma",
            kernel[kernel.len() - 1].p50_usec,
            latency.p50_usec
        ));
    }
    drop(stage);
    print(&report(&kernel, &libvma, packets))?;
    say(hint(library, vma_stats));
    Ok(())
}

fn report(kernel: &[Latency], libvma: &[Latency], packets: Ends) -> String {
    let (kernel, libvma) = (
        Latency::median_of(kernel.iter()).values(),
        Latency::median_of(libvma.iter()).values(),
    );
    let ratio = [0, 1, 2].map(|column| kernel[column] / libvma[column]);
    let line = |name: &str, values: [f64; 3]| {
        let values = values.map(|value| format!("{value:.2}"));
        [name.to_owned()].into_iter().chain(values).collect()
    };
    let [p50, p99, p999] = Latency::NAMES;
    let latency = layout(&[
        row!["", p50, p99, p999],
        line("kernel", kernel),
        line("libvma", libvma),
        line("kernel / libvma", ratio),
    ]);
    let packets = layout(&[
        row!["packets with libvma", "offloaded", "OS"],
        row!["client", packets.client.offloaded, packets.client.os],
        row!["server", packets.server.offloaded, packets.server.os],
    ]);
    format!(
        "\nsockperf ping-pong, UDP, {PING_PONG_BYTES} bytes, veth: half round trips in microseconds, \
         medians of {ROUNDS} rounds\n\n{latency}\n{packets}"
    )
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
        let kernel = [latency(10.0), latency(900.0), latency(9.0)];
        let libvma = [latency(2.0), latency(2.5), latency(1.5)];
        let expected = "
sockperf ping-pong, UDP, 64 bytes, veth: half round trips in microseconds, medians of 5 rounds

                   p50    p99  p99.9
kernel           10.00  20.00  40.00
libvma            2.00   4.00  40.00
kernel / libvma   5.00   5.00   1.00

packets with libvma  offloaded  OS
client                  123456   1
server                  123457   0
";
        assert_eq!(report(&kernel, &libvma, packets), expected);
    }
}
