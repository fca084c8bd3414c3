//! What the manual page says beside the command line.

use clap::CommandFactory;
use manual::Page;

const PROSE: &[(&str, &str)] = &[
    (
        "THE REPORT",
        "
Each line is about one thing:
.B ok
is as it should be,
.B note
costs speed or leaves an interface to the kernel, and with
.B MISSING
nothing is accelerated.
Under it stands how to mend it.
Looked at are the library, the kernel, the capabilities of this user, the limit of locked memory, each Ethernet interface that is up
with its driver, queues, MTU, the mode of XDP to expect and the XDP program of somebody else, isolated processors, and the governor of
their frequency.
",
    ),
    (
        "EXIT STATUS",
        "
That of the program; 126 if it or the library cannot be used, 127 if it is not there, 2 if the command line is wrong.
With
.BR \\-\\-check ,
0 if sockets can be accelerated and 1 if not.
",
    ),
    (
        "ENVIRONMENT",
        "
The program gets
.B LD_PRELOAD
with the library before what was there, and
.B VMA_SPEC
with
.BR \\-\\-spec .
All other variables of
.BR vma (7)
are passed on.
",
    ),
    (
        "EXAMPLES",
        "
.EX
    vma\\-run \\-\\-check
    vma\\-run \\-s latency ./feed_handler \\-\\-port 30000
.EE
",
    ),
];

#[test]
fn the_manual_page_is_current() {
    manual::assert_current(&Page {
        command: crate::cli::Options::command(),
        section: 1,
        subcommands: Vec::new(),
        prose: PROSE,
        see_also: &[
            ("vma", 7),
            ("vma_stats", 8),
            ("setpriv", 1),
            ("limits.conf", 5),
        ],
    });
}
