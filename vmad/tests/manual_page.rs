//! What the manual page says beside the command line.

use manual::Page;

const PROSE: &[(&str, &str)] = &[
    (
        "WHAT IT TRUSTS",
        "
The kernel says which process sent a message, and a message counts only for that process.
A process may tell of a connection if its network namespace is that of the daemon, the local address is one of that namespace, and
no socket of the kernel and no earlier message of another user has the connection.
A connection of a dead process is not reset if a live process or a socket of the kernel has it.
.PP
Messages of a process are limited to 20,000 a second, processes and connections in number, and the segments that the daemon sends
to 50,000 a second, in turn for each process that died.
.PP
The socket may be written to by its owner and group only.
",
    ),
    (
        "HOW A PEER IS RESET",
        "
A peer takes a reset only with the sequence number that it expects next.
Messages do not tell that number, so the peer is sent a SYN with the addresses of the connection; it answers with an
acknowledgement that has the number (RFC 5961), and gets the reset.
A peer that does not answer is asked three times.
.PP
Processes under libvma publish the number with their statistics: their peers are sent the reset at once.
A peer that has not received everything answers with the number that it expects, and gets another.
.PP
Programs under the original library on Hyper-V ask for packets to be redirected to and from a TAP device.
This is done by filters of traffic control
.RB ( tc\\-u32 (8))
at the interface, the loopback interface and the TAP device, for processes that have CAP_NET_ADMIN themselves, until the last
process that asked has ended.
Queueing disciplines and filters of others are left alone.
",
    ),
    (
        "BROKER",
        "
With
.B \\-\\-broker
it opens network interfaces for the programs that ask, in their network namespaces, and gives each a part: several processes send and
receive past the kernel on one interface.
An interface is opened when the first asks, and closed ten seconds after the last has gone.
When the broker ends, sockets go on with the kernel.
Where
.B vma-broker.socket
is enabled, systemd has the socket, and starts the broker when a program asks.
.BR vma\\-run (1)
starts one for a program and what that starts
.RB ( \\-\\-broker ),
which ends with them.
.PP
.I /etc/vma/vmad.conf
says who may, beside root; without the file the group vma.
A line is
.RS
.B allow user|group
.I name|number
.RI [ interface ...]
.RE
A grant is CAP_NET_RAW on the interface, and those who share one can read and spoil each other\\(aqs packets.
",
    ),
    (
        "RIGHTS",
        "
The broker runs as root, with CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_IPC_LOCK.
The daemon takes:
.TP
.B CAP_NET_RAW
to send segments in the name of a process that is gone.
.TP
.B CAP_SYS_PTRACE
to see which network namespace a process of another user is in.
Without it, only processes of the daemon\\(aqs own user are served.
.TP
.B CAP_FOWNER
to remove what dead processes of other users left in /tmp.
Without it, those files stay until
.BR vma_stats (8)
or their owner removes them.
.TP
.B CAP_DAC_OVERRIDE
to answer programs under the original library, whose sockets only their own user may write to.
.I vma.service
does not have it; the example
.I original\\-library.conf
in the documentation of the package adds it.
.TP
.B CAP_NET_ADMIN
to redirect packets to TAP devices.
The same example adds it; without it, such requests are refused.
",
    ),
    (
        "SIGNALS",
        "
.TP
.B SIGHUP
looks at the directories and at the addresses of the host again.
.TP
.B SIGTERM, SIGINT
end the daemon.
",
    ),
    (
        "FILES",
        "
.TP
.I /var/run/vma_agent.sock
The socket that programs under the original library send to.
.TP
.I /run/vma/vmad.sock
The socket that programs ask the broker through.
.TP
.I /etc/vma/vmad.conf
Whom the broker serves.
.TP
.I /run/vmad/status.json\\fR,\\~ \\fI/run/vma/vmad.json
What
.B \\-\\-status
prints, of the daemon and of the broker.
The broker\\(aqs, which is beside its socket, says for each interface who has it (process, user, program), which ports and flows, received
frames that it has not taken, frames that are being sent for it, its own to send by, and packets that were lost for lack of room; and
who was refused, how often and why.
It is written once a second while something changes, and anybody may read it.
.TP
.I /tmp/vmastat.<pid>
Statistics of a process: the daemon watches whoever has them, and removes those of the dead.
.TP
.I /tmp/vma
Files of programs under the original library; those of the dead are removed.
",
    ),
];

#[test]
fn the_manual_page_is_current() {
    manual::assert_current(&Page {
        command: vmad::cli::command(),
        section: 8,
        subcommands: Vec::new(),
        prose: PROSE,
        see_also: &[("vma", 7), ("vma_stats", 8), ("systemd.service", 5)],
    });
}
