//! Parameters that the original does not have.

use super::build::{flag, number};
use super::{Kind, Parameter, Rule, Word};

const MODES: &[Word] = &[
    Word {
        word: "auto",
        text: "whichever of the two measures faster for the driver",
    },
    Word {
        word: "native",
        text: "inside the driver",
    },
    Word {
        word: "generic",
        text: "in the kernel's network stack, with any driver",
    },
];

const DEVICES: &[Word] = &[
    Word {
        word: "auto",
        text: "its RDMA device if it has one that takes raw packets, else AF_XDP",
    },
    Word {
        word: "xdp",
        text: "AF_XDP",
    },
    Word {
        word: "verbs",
        text: "its RDMA device",
    },
];

pub(super) const PARAMETERS: [Parameter; 7] = [
    Parameter::new(
        "VMA_DEVICE",
        "Device",
        Kind::Word {
            default: "auto",
            words: DEVICES,
        },
    )
    .about(
        "By what packets pass the kernel on an interface.",
        "RDMA devices are those of libibverbs.so.1, which is loaded if the kernel has one or verbs is \
         asked for. With verbs, an interface without one is not accelerated.",
    ),
    Parameter::new(
        "VMA_XDP_MODE",
        "XDP mode",
        Kind::Word {
            default: "auto",
            words: MODES,
        },
    )
    .about(
        "Where the XDP program runs.",
        "auto takes what vma-run --check --measure found faster on the interface, else what is faster for \
         its driver, and the other mode if that fails. \
         native needs a driver with XDP support, generic a kernel with BTF and CAP_PERFMON; an interface \
         without what its mode needs is then not accelerated.",
    ),
    number(
        "VMA_XDP_POOL_FRAMES",
        "XDP pool frames",
        8192,
        (1024, 1_048_576),
    )
    .rule(Rule::PowerOfTwo)
    .about(
        "How many frames all rings of the process share.",
        "Holds packets that were received and not read yet, and packets on their way out. Frames \
             are of 2 KiB, and of 4 KiB if the MTU of an interface is above 1778; the default takes 16 or 32 MiB. While no frame is free, packets are lost.",
    ),
    number("VMA_OPEN_WAIT_MSEC", "Open wait (msec)", 0, (0, 60_000)).about(
        "How long a call waits at most, in milliseconds, for an interface that is being opened.",
        "The first bind(), connect() or send() that needs an interface has it opened by a thread of \
         the library's: 20 to 40 ms on a quiet host, seconds where others change its network \
         configuration. After this time the call goes on with the kernel, and its socket is \
         accelerated as soon as the interface is open: datagram sockets and listeners at once, a \
         connection in the first call that finds nothing of it on its way or unread. With 0 the \
         thread gives the program 20 ms first: one that has ended by then needs no interface.",

    ),
    Parameter::new(
        "VMA_BROKER",
        "Broker",
        Kind::Text { default: "/run/vma/vmad.sock", expands_pid: false },
    )
    .about(
        "The socket of the broker that opens interfaces for several processes (vmad --broker).",
        "Where it listens, each process that it serves gets a part of an interface; elsewhere, and \
         with an empty value, the first process that opens an interface has it alone.",
    ),
    flag("VMA_SHM", "Shared Memory", false).about(
        "Whether TCP connections within this host go through memory that both processes share.",
        "Both processes need the library, this setting, one user and one network namespace; other \
         connections are the kernel's as ever. It is off by default as it is new, and not yet faster \
         for every program: see docs/same-host.md.",
    ),
    flag("VMA_POLL_SHARED_CPU", "Poll Shared CPU", false).about(
        "Poll on a processor that other threads need, too.",
        "By default a thread offers its processor now and then while it polls, and sleeps instead of \
         polling where others take it; with polling for ever it goes on offering. 1 polls whatever \
         that costs the others, a peer on the same processor among them: milliseconds.",
    ),
];
