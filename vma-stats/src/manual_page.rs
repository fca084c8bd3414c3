//! What the manual page says beside the command line.

use manual::Page;

const PROSE: &[(&str, &str)] = &[
    (
        "EXIT STATUS",
        "
0 after the last report, when the process ended or on Ctrl\\-C; 1 if the command line is wrong or there is no process to show.
",
    ),
    (
        "FILES",
        "
.TP
.I /tmp/vmastat.<pid>
The statistics of a process.
The library writes them all the time, whether or not somebody reads;
.B VMA_STATS_SHMEM_DIR
in the environment of that process names another directory.
A file is believed only if it belongs to the user of the process, or to root.
",
    ),
    (
        "EXAMPLES",
        "
Why are sockets of the process not accelerated?
.PP
.EX
    vma_stats \\-p $(pgrep feed_handler) \\-\\-explain \\-c 1
.EE
.PP
Ten documents, one a second, for another program to read:
.PP
.EX
    vma_stats \\-n feed_handler \\-\\-json \\-c 10
.EE
",
    ),
];

#[test]
fn the_manual_page_is_current() {
    manual::assert_current(&Page {
        command: crate::cli::command(),
        section: 8,
        subcommands: Vec::new(),
        prose: PROSE,
        see_also: &[("vma", 7), ("libvma.conf", 5), ("vmad", 8), ("vma-run", 1)],
    });
}
