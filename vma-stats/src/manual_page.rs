//! What the manual page says beside the command line.

use manual::Page;

const PROSE: &[(&str, &str)] = &[
    (
        "COMMANDS",
        "
.TP
.B explain \\fR[\\fIFD\\fR]
Say why each socket, or one, is accelerated or not, and what to change.
.TP
.BI record \\~FILE
Write the statistics to a file, one JSON document an interval.
.TP
.BI replay \\~FILE
Show what was recorded; options of output, such as
.BR \\-v ,
may follow.
.TP
.B broker \\fR[\\fISOCKET\\fR]
Say which processes
.BR vmad (8)
serves as broker, their ports, flows and frames, and who was refused and why; with
.B \\-\\-json
for programs.
.TP
.B capture \\fR[\\fB\\-w\\~\\fIFILE\\fR] [\\fIFILTER\\fR]
Write the packets that go past the kernel, which
.BR tcpdump (8)
does not see, as pcapng: to standard output, a file, or a ring of files
.RB ( \\-C
and
.BR \\-W ,
as tcpdump has them).
Each has its direction, process and descriptor as a comment.
The filter has the common words of
.BR pcap\\-filter (7):
host, net, port, portrange with src and dst; ip, ip6, tcp, udp; inbound, outbound; less, greater; and, or, not; and
.BR fd \\~ N .
With
.B \\-c
so many packets are written, with
.B \\-s
those of these descriptors,
.B \\-\\-snapshot_length
octets of each.
Only the user of the process and root may ask; the process never waits for the reader, and what is lost is counted.
.TP
.IR PID \\~ [ VIEW ]
As
.BR \\-p \\~\\fIPID\\fR\\~ \\-v \\~\\fIVIEW\\fR,
which the first versions of the original took.
",
    ),
    (
        "KEYS",
        "
.TP
.BR 1 \\-\\c
.BR 8 ,\\~ Tab
Another screen: sockets, rings and buffers, epoll sets, TCP connections, multicast groups, events, settings, processes.
.TP
.B Enter
All about the chosen socket; in the list of processes, that process.
.TP
.B /
Filter the list; Esc ends it.
.TP
.BR s ,\\~ r
Sort by the next column; reverse.
.TP
.BR t ,\\~ a
Totals instead of rates; the sockets of all processes.
.TP
.BR Space ,\\~ + ,\\~ \\-
Pause; faster, slower.
.TP
.B z
Let all counters begin anew, for everybody who looks; asks first.
.TP
.BR ? ,\\~ q
Help; quit.
",
    ),
    (
        "COLUMNS",
        "
Views 1 and 2 have two lines for each socket,
.B Rx
and
.BR Tx .
Under
.I offloaded
are packets that went past the kernel, and under
.I os
those that the kernel carried:
.B pkt
and
.B Kbyte
count them,
.B eagain
the calls that would have waited,
.B error
those that failed, and
.B poll%
is the share of polls that found something.
On the screens,
.B kern%
is the share of packets that the kernel carried,
.B queue
what waits to be read, and
.B drops
what nobody read in time.
.B cpu%
is of one CPU.
Every counter of
.B \\-\\-json
and
.B \\-\\-csv
is in docs/statistics.md.
",
    ),
    (
        "METRICS",
        "
.B \\-\\-prometheus
has sums by program, protocol, state (offloaded, kernel) and reason, of all processes; served at an address, counters go on where
sockets and processes end.
Gauges are sums, peaks and round trip times the largest.
With
.B \\-\\-per_socket
there is a series for each socket, with process, descriptor and addresses: as many as there are sockets.
A dashboard for Grafana is among the examples.
",
    ),
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
Which packets of a socket come and go now?
.PP
.EX
    vma_stats capture \\-n feed_handler fd 17 | tcpdump \\-nr \\-
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
