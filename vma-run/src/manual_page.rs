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
with its driver, queues, MTU and the mode of XDP to expect, isolated processors, and the governor of their frequency.
On the first queue of each interface without an XDP program an AF_XDP socket is opened, and closed again; who has an interface is named.
.PP
With
.B \\-\\-measure
a program is attached to each such interface in both modes of XDP in turns, and the gateway, or a neighbour, is asked for its own address by
ARP as often as it answers in 50 ms; nothing else is taken from the kernel.
The medians of the round trips are printed.
A mode that takes a tenth less is written to
.IR /run/vma/xdp-modes ,
and
.B VMA_XDP_MODE=auto
takes it from then on, until the machine is started again.
Some drivers take the link down for seconds when a program is attached.
.PP
.B \\-\\-json
prints the same as one document:
.B ready
and
.BR findings ,
each with
.BR weight ,
.BR subject ,
.B text
and
.BR remedy .
",
    ),
    (
        "PROGRAMS WITHOUT EFFECT",
        "
A program that is linked statically, one that is written in Go, and one that gets rights by its file (set-user-ID, set-group-ID, file
capabilities) hears nothing of the library.
It is started all the same, and a warning says why it runs on the kernel.
",
    ),
    (
        "A BROKER",
        "
Without one, the first process of a program that opens an interface has it.
With
.B \\-\\-broker\\~auto
or
.B yes
all processes that the program starts have their parts, also those that give up their rights, if their user is the one that started
the program or
.I /etc/vma/vmad.conf
names it.
.BR vmad (8)
is started for them, unless one serves this machine already or
.B VMA_BROKER
is set; it takes CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN, and ends ten seconds after the last of them.
Where it cannot be started,
.B auto
starts the program all the same, and
.B yes
does not.
It is not the default: a ping\\-pong takes some tenth longer by a broker, and a program of one process has nothing of it.
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
.BR \\-\\-spec ,
and
.B VMA_BROKER
where a broker was started.
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
