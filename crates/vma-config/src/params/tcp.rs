//! Which sockets are accelerated, timers, TCP and the treatment of what is not supported.

use super::build::{ANY_U32, choice, flag, number};
use super::{Choice, Form, Parameter};

const CONTROL_THREAD: &[Choice] = &[
    Choice {
        number: 0,
        text: "(Disabled)",
    },
    Choice {
        number: 1,
        text: "(Enabled - with wakeup)",
    },
    Choice {
        number: 2,
        text: "(Enabled - no wakeup)",
    },
];

const TIMESTAMP_OPTION: &[Choice] = &[
    Choice {
        number: 0,
        text: "(Disabled)",
    },
    Choice {
        number: 1,
        text: "(Enabled)",
    },
    Choice {
        number: 2,
        text: "(follow net.ipv4.tcp_timestamps)",
    },
];

const EXCEPTIONS: &[Choice] = &[
    Choice {
        number: -2,
        text: "(exit on failed startup)",
    },
    Choice {
        number: -1,
        text: "(just log debug message)",
    },
    Choice {
        number: 0,
        text: "(log debug and un-offload)",
    },
    Choice {
        number: 1,
        text: "(log error and un-offload)",
    },
    Choice {
        number: 2,
        text: "(Log Error and return error)",
    },
    Choice {
        number: 3,
        text: "(Log error and Abort!)",
    },
];

pub(super) const PARAMETERS: [Parameter; 11] = [
    flag("VMA_OFFLOADED_SOCKETS", "Offloaded Sockets", true).about(
        "Whether new sockets are accelerated.",
        "0 leaves every socket to the kernel. Threads for which the program chose otherwise through \
         vma_extra.h are not affected.",
    ),
    number("VMA_TIMER_RESOLUTION_MSEC", "Timer Resolution (msec)", 10, ANY_U32)
        .no_meaning("the internal thread sleeps until its next timer is due")
        .about(
            "The tick of the internal thread's timers in milliseconds.",
            "The shortest delay that those timers can measure.",
        ),
    number("VMA_TCP_TIMER_RESOLUTION_MSEC", "TCP Timer Resolution (msec)", 100, ANY_U32)
        .no_meaning("timers of connections have a resolution of one millisecond, and cost nothing until they are due")
        .about(
            "The tick of the TCP timers in milliseconds.",
            "At least VMA_TIMER_RESOLUTION_MSEC.",
        ),
    choice("VMA_TCP_CTL_THREAD", "TCP control thread", 0, CONTROL_THREAD)
        .no_meaning("the internal thread does at once what no call of the program does, and calls do the rest")
        .about(
            "Let the internal thread do TCP's connection set-up and tear-down.",
            "1 wakes it when there is work; 2 waits for its next tick.",
        ),
    choice("VMA_TCP_TIMESTAMP_OPTION", "TCP timestamp option", 0, TIMESTAMP_OPTION)
        .form(Form::Number)
        .about(
            "Whether connections use TCP timestamps.",
            "2 follows the kernel's net.ipv4.tcp_timestamps, as do connections if it is not set.",
        ),
    flag("VMA_TCP_NODELAY", "TCP nodelay", false).form(Form::Number).about(
        "Whether TCP sockets start with TCP_NODELAY on.",
        "Small writes are then sent at once.",
    ),
    flag("VMA_TCP_QUICKACK", "TCP quickack", false).form(Form::Number).about(
        "Whether what arrives by TCP is acknowledged at once.",
        "No acknowledgement is then delayed to ride on data, whatever TCP_QUICKACK says.",
    ),
    choice("VMA_EXCEPTION_HANDLING", "Exception handling mode", -1, EXCEPTIONS)
        .about(
            "What happens when a program asks an accelerated socket for what only the kernel does.",
            "Such as an option whose effect the accelerated path does not have. -1 and 0: the kernel \
             does it and has the socket back, which is logged at level DEBUG. 1: the same, logged at \
             level ERROR. 2: it is logged at level ERROR, and the call fails with EINVAL. 3: it is \
             logged at level ERROR, and the program aborts. -2: as -1; and the process ends, with \
             status 255, if the library cannot start or can open none of the interfaces that are \
             needed. Otherwise sockets are then the kernel's, after a warning.",
        ),
    flag("VMA_AVOID_SYS_CALLS_ON_TCP_FD", "Avoid sys-calls on tcp fd", false)
        .no_meaning("the kernel's socket has to know the options: it may get the connection back")
        .about(
            "Do not repeat options and modes of connected TCP sockets on the kernel's socket.",
            "Saves system calls in ioctl(), fcntl(), setsockopt() and getsockopt().",
        ),
    flag("VMA_ALLOW_PRIVILEGED_SOCK_OPT", "Allow privileged sock opt", true)
        .no_meaning("only the kernel's socket can keep to a device; since Linux 5.7 every program may bind it to one")
        .about(
            "Accept SO_BINDTODEVICE even when the kernel refuses it for want of privileges.",
            "Concerns accelerated sockets only.",
        ),
    number("VMA_WAIT_AFTER_JOIN_MSEC", "Delay after join (msec)", 0, ANY_U32)
        .about(
            "How long, in milliseconds, to wait after joining a multicast group.",
            "For networks that lose the first packets after a join: the call that joins returns so much later.",
        ),
];
