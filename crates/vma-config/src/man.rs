//! The manual page of the library, in the man(7) macros.

use std::fmt::{self, Write};

use crate::deprecated::DEPRECATED;
use crate::docs::{default_text, names_and_aliases};
use crate::level::LogLevel;
use crate::params::{GROUPS, Kind, Parameter, capitalized};
use crate::preset::{PRESETS, Spec};

const HEAD: &str = r#".\" Generated from crates/vma-config; do not edit.
.\" To write it again: UPDATE_DOCS=1 cargo test -p vma-config docs_are_current
.TH VMA 7 "" "libvma" "Miscellaneous Information Manual"
.SH NAME
vma, libvma.so \- moves the sockets of a program past the kernel
.SH SYNOPSIS
.B LD_PRELOAD=libvma.so
.RI [ variable = value " ...] " program " [" argument " ...]"
.SH DESCRIPTION
.B libvma.so
is preloaded into a program that is not changed.
It interposes the socket calls of the C library and carries the packets of UDP and TCP sockets over IPv4 and IPv6 through AF_XDP, past the network stack
of the kernel.
What it cannot accelerate works as without it, and
.B vma_stats \-\-explain
says why it does not.
.PP
It is set up by the environment variables below, which it reads once when it is loaded, and by the rules of
.IR /etc/libvma.conf .
Names and values are those of VMA.
At start-up it logs every parameter that is not at its default, and with
.B VMA_TRACELEVEL=details
all of them.
.SH ENVIRONMENT
Each parameter gets its default, then what
.B VMA_SOCKETXTREME
and the profile of
.B VMA_SPEC
preset, then what its own variable says.
A value that cannot be used is reported and counts as not set.
A variable that begins with VMA_ and is not listed here is reported with the nearest name.
.PP
Numbers are decimal.
Switches are 0 or 1; any other number is on, and true, yes, on, enabled and their opposites are understood too.
Names of levels, profiles and modes are read without regard to case.
A parameter marked
.I no effect yet
is read and checked, so that existing set-ups keep working, and changes nothing in this release.
One marked
.I no meaning here
concerns what this library does not have or does not need, and changes nothing either.
"#;

const FILES: &str = r#".SH FILES
.TP
.I /etc/libvma.conf
The rules that say which sockets are accelerated;
.B VMA_CONFIG_FILE
names another file.
See
.BR libvma.conf (5).
.TP
.I /tmp/vmastat.<pid>
The statistics of a process, which
.BR vma_stats (8)
reads;
.B VMA_STATS_SHMEM_DIR
names another directory.
.SH PROGRAMS THAT GIVE UP RIGHTS
Daemons that drop their rights after
.BR listen (2)
or
.BR bind (2)
work. The library needs rights to open an interface, with the first socket that can use it, and
.B CAP_NET_ADMIN
for each TCP connection.
With the call that gives up that capability for good
.RB ( setuid (2),
.BR setreuid (2),
.BR setresuid (2),
.BR capset (2),
also by
.BR syscall (2))
the kernel gets all listeners and connections of the process, with what is queued; later ones are its own from the start, with a reason that names the call.
UDP sockets stay accelerated, and so do new ones on interfaces that are open.
.BR seteuid (3)
and back changes nothing.
For TCP past the kernel let the service manager start the program as its user, with
.B CAP_NET_ADMIN
.RB ( User
and
.B AmbientCapabilities
of
.BR systemd.exec (5)):
then it has nothing to give up.
The library's thread never has more rights than the program's first thread.
A call that is made past the C library is noticed after half a second, or by the next
.BR accept (2);
connections that have to return before that are lost.
.PP
What it has opened by then it keeps when the program becomes another user
.RB ( setuid (2)),
as the program keeps its own descriptors: for each interface the AF_XDP sockets, the maps of the XDP program and its link, where
the device cuts TCP segments a packet socket that only sends, and one raw socket (IPv4), through which datagrams that wait in user space go back to the kernel.
The loaded program's own descriptor is closed.
Whoever takes such a process over can receive and send any packet on those interfaces until it ends, not only those of its sockets.
All of them are closed by
.BR execve (2),
and a child of
.BR fork (2)
closes them first thing.
A program that must not keep them drops its rights before its first socket; then nothing is accelerated, unless it keeps the
capabilities on purpose.
.SH FILTERS OF SYSTEM CALLS
A filter
.RB ( seccomp (2))
that a program installs is seen on its way to the kernel, and run over the calls that the library makes beside the program itself.
If it forbids one of them, whether with an error, a signal or death, all sockets return to the kernel before it is in force, with what is queued; the library's thread ends,
and nothing is accelerated in that process any more. The log at level debug names the call.
A filter that is there before the program, as a service manager's, is found out in a child process that tries the calls: if one of them is deadly, nothing is accelerated and
the program runs as without the library. One that answers
.BR bpf (2),
.BR ppoll (2)
or
.BR socket (2)
for AF_XDP with an error costs acceleration at most, and no datagram.
.PP
So a program stays accelerated under a filter that allows it these calls. With the first socket:
clone3, close_range, exit, fallocate, fchmod, flock, fstatfs, ftruncate, getdents64, geteuid, getresuid, ioctl, lseek,
membarrier, openat, prctl, pwrite64, readlinkat, rseq, sched_getaffinity, set_robust_list, sigaltstack,
statx, uname.
From then on:
bind, bpf, brk, capget, clock_gettime, clock_nanosleep, close, connect, dup3, epoll_create1, epoll_ctl, epoll_pwait,
eventfd2, fcntl, fstat, futex, getpeername, getpid, getrandom, getsockname, getsockopt, gettid, madvise, mmap,
mprotect, mremap, munmap, newfstatat, ppoll, pread64, prlimit64, read, recvfrom, recvmsg, rt_sigaction, rt_sigpending,
rt_sigprocmask, rt_tgsigqueueinfo, sched_yield, sendmsg, sendto, setsockopt, shutdown, socket, socketpair, unlinkat,
write.
These are not made under a filter that forbids them:
getrusage, pidfd_open, sched_setaffinity, sched_setscheduler.
So a program that makes its first socket before it installs the filter needs the second list only, while it uses no other interface
than by then.
.PP
A program whose first thread a filter kills, or which ends it by
.BR pthread_exit (3),
ends with its last thread, half a second later at most, with the status that it has without the library.
.SH PROGRAMS THAT WAIT BY INSTRUCTIONS OF THEIR OWN
A program that calls the kernel without the C library, as Rust's rustix does in its usual form, and with it the crates polling, async-io and smol, is not seen by
the library. When a thread of it sleeps so for a socket that is ready past the kernel, all sockets of the process become the kernel's, and so do those that it opens later:
.B vma_stats explain
gives the reason, and the log says so once. That takes 50 to 100 milliseconds from the first packet on.
.SH PROGRAMS THAT USE IO_URING
Of a ring that is made through the C library's
.BR syscall (2),
as libuv does, the library sees what it does: it follows changes of epoll sets, and a socket that the ring uses itself becomes the kernel's first.
Of others nobody sees it: rings that a program makes with instructions of its own (liburing), or that take their operations by themselves (SQPOLL), from
tables of descriptors or from the program's memory.
All sockets of such a process are the kernel's, and
.B vma_stats explain
gives the reason.
A ring of the first kind that is made when sockets are past the kernel already is found within half a second.
.SH TROUBLESHOOTING
.B vma\-run \-\-check
says what the machine and the user lack, and
.B vma_stats explain
why each socket of a program is accelerated or not, and what to change; docs/troubleshooting.md goes further.
.TP
The program shows nothing of the library
It is linked statically, written in Go, linked to another C library, or gets rights by its file
.RB ( vma\-run
says so); or the variable did not reach it through sudo, a service or a script.
.TP
.B Operation not permitted
CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF are missing, for generic mode also CAP_PERFMON: ambient capabilities, or a broker
.RB ( vmad (8)),
which takes none from the program.
.TP
A box about locked memory
CAP_IPC_LOCK, the group vma, or
.B LimitMEMLOCK=infinity
in the unit.
.TP
.B held by process
An interface is one process\(aqs: end the other, or start a broker.
.TP
.B user N may not have
The broker\(aqs policy,
.IR /etc/vma/vmad.conf ;
.B vmad \-\-status
says who was refused.
.TP
The driver refuses
It has no XDP, or the MTU is above what it takes for that (ena 3498, gve 2032, igc 1500, ixgbe 3050, mana 3506, mlx5 3498, virtio_net 3506):
.BR VMA_XDP_MODE=generic ,
or a smaller MTU.
.TP
Slower than the kernel
Threads share processors: give each that waits its own
.RB ( taskset (1)),
on the NUMA node of the card, or set VMA_RX_POLL and VMA_SELECT_POLL to 0; the frequency governor performance, and no sleep states beyond C1.
.TP
Multicast does not arrive
No route for groups, the reverse path filter, or no querier in the network:
.B ip route get
.IR GROUP .
.TP
Packets are not seen
tcpdump sees none that go past the kernel:
.BR "vma_stats capture" .
.SH EXAMPLES
Lowest latency, at the price of one processor for each thread that waits:
.PP
.EX
    LD_PRELOAD=libvma.so VMA_SPEC=latency ./feed_handler
.EE
.PP
Accelerate one feed only; in
.IR /etc/libvma.conf :
.PP
.EX
    application\-id feed_handler *
    use vma udp_receiver 10.20.0.0/16:30000\-30999
    use os  udp_receiver *:*
.EE
.PP
Why is a socket not accelerated?
.PP
.EX
    vma_stats \-p $(pgrep feed_handler) \-\-explain \-c 1
.EE
.SH SEE ALSO
.BR vma\-run (1),
.BR libvma.conf (5),
.BR vma_stats (8),
.BR vmad (8),
.BR ld.so (8),
.BR socket (7),
.BR udp (7)
"#;

/// The text of `man/vma.7`.
pub fn man_page() -> String {
    let mut page = HEAD.to_owned();
    // Writing into a string cannot fail.
    let _ = write_parameters(&mut page)
        .and_then(|()| write_levels(&mut page))
        .and_then(|()| write_profiles(&mut page))
        .and_then(|()| write_older(&mut page));
    page + FILES
}

fn write_parameters(page: &mut String) -> fmt::Result {
    for group in GROUPS {
        writeln!(page, ".SS \"{}\"", escaped(group.title))?;
        for parameter in group.parameters {
            write_parameter(page, parameter)?;
        }
    }
    Ok(())
}

fn write_parameter(page: &mut String, parameter: &Parameter) -> fmt::Result {
    writeln!(page, ".TP\n.B {}", parameter.name)?;
    line(page, parameter.help)?;
    line(page, parameter.description)?;
    line(page, &format!("Allowed: {}.", parameter.range()))?;
    if let Kind::Choice { choices, .. } = parameter.kind {
        let choices = choices.iter().map(|choice| {
            let text = choice.text.trim_start_matches('(').trim_end_matches(')');
            format!("{}: {text}", choice.number)
        });
        line(page, &(choices.collect::<Vec<_>>().join("; ") + "."))?;
    }
    if let Kind::Word { words, .. } = parameter.kind {
        let words = words
            .iter()
            .map(|word| format!("{}: {}", word.word, word.text));
        line(page, &(words.collect::<Vec<_>>().join("; ") + "."))?;
    }
    let default = default_text(parameter).replace('`', "");
    line(page, &format!("Default: {default}."))?;
    if let Some((remark, reason)) = parameter.status.remark() {
        writeln!(page, ".I {}:", capitalized(remark))?;
        line(page, &format!("{reason}."))?;
    }
    Ok(())
}

fn write_levels(page: &mut String) -> fmt::Result {
    writeln!(page, ".SS \"Log levels\"")?;
    line(
        page,
        "From the fewest messages to the most. Note that 4 is debug.",
    )?;
    for level in LogLevel::ALL_LEVELS {
        let name = level.name().to_ascii_lowercase();
        write_names(page, level.accepted_names(), &name)?;
    }
    Ok(())
}

fn write_profiles(page: &mut String) -> fmt::Result {
    writeln!(page, ".SS \"Profiles\"\nWhat\n.B VMA_SPEC\npresets.")?;
    for spec in Spec::ALL {
        write_names(page, spec.accepted_names(), spec.name())?;
        let presets = PRESETS.iter().find(|(preset_spec, _)| *preset_spec == spec);
        let presets = presets.map_or(&[][..], |(_, presets)| presets);
        let settings = presets.iter().map(|preset| {
            let name = preset.parameter.parameter().name;
            format!("{name}={}", preset.value().to_environment())
        });
        let settings: Vec<_> = settings.collect();
        if settings.is_empty() {
            line(page, "Presets nothing.")?;
        } else {
            line(page, &(settings.join(", ") + "."))?;
        }
    }
    Ok(())
}

fn write_names(page: &mut String, names: &[&str], name: &str) -> fmt::Result {
    let (name, aliases) = names_and_aliases(names, name);
    writeln!(page, ".TP\n.B {}", escaped(&name))?;
    if aliases.is_empty() {
        return Ok(());
    }
    line(page, &format!("Also {}.", aliases.replace('`', "")))
}

fn write_older(page: &mut String) -> fmt::Result {
    writeln!(page, ".SS \"Variables of older releases\"")?;
    for deprecated in DEPRECATED {
        writeln!(page, ".TP\n.B {}", deprecated.name)?;
        line(page, &format!("{}.", capitalized(deprecated.advice)))?;
    }
    Ok(())
}

/// A line of running text.
fn line(page: &mut String, text: &str) -> fmt::Result {
    let text = escaped(text);
    // At the beginning of a line these two make a request of it.
    let guard = if text.starts_with(['.', '\'']) {
        "\\&"
    } else {
        ""
    };
    writeln!(page, "{guard}{text}")
}

/// Text as it is to be seen: hyphens that can be copied into a shell, and no escape sequences.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_a_request_or_an_escape() {
        let mut page = String::new();
        line(&mut page, ".so /etc/passwd \\n -1").unwrap();
        line(&mut page, "'quoted'").unwrap();
        assert_eq!(page, "\\&.so /etc/passwd \\en \\-1\n\\&'quoted'\n");
    }
}
