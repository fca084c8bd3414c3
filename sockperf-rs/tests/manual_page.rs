//! What the manual page says beside the command line.

use clap::Command;
use manual::Page;

const PROSE: &[(&str, &str)] = &[
    (
        "EXAMPLES",
        "
A server, and half round trips to it for ten seconds, both past the kernel:
.PP
.EX
    vma\\-run \\-s latency sockperf\\-rs server \\-i 192.0.2.1
    vma\\-run \\-s latency sockperf\\-rs ping\\-pong \\-i 192.0.2.1 \\-t 10
.EE
",
    ),
    (
        "ENVIRONMENT",
        "
.TP
.B SEED
A number that the sequence of random message lengths begins with.
",
    ),
];

#[test]
fn the_manual_page_is_current() {
    let command = Command::new("sockperf-rs")
        .about("measures latency and throughput of the network, as sockperf does")
        .long_about(
            "A benchmark of the network that exchanges messages with sockperf, and has its commands, options and \
             reports. One end is a server, the other a client.",
        )
        .override_usage("sockperf-rs <command> [options]\nsockperf-rs <command> --help")
        .disable_help_flag(true);
    manual::assert_current(&Page {
        command,
        section: 1,
        subcommands: sockperf_rs::args::commands(),
        prose: PROSE,
        see_also: &[("vma", 7), ("vma-run", 1), ("vma_stats", 8)],
    });
}
