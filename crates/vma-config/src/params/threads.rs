//! The internal thread, locks and memory.

use super::build::{choice, flag};
use super::{Choice, Form, Kind, Parameter};

const THREAD_MODES: &[Choice] = &[
    Choice {
        number: 0,
        text: "Single",
    },
    Choice {
        number: 1,
        text: "Multi spin lock",
    },
    Choice {
        number: 2,
        text: "Multi mutex lock",
    },
    Choice {
        number: 3,
        text: "Multi more threads than cores",
    },
];

const BATCHING: &[Choice] = &[
    Choice {
        number: 0,
        text: "(No batching buffers)",
    },
    Choice {
        number: 1,
        text: "(Batch and reclaim buffers)",
    },
    Choice {
        number: 2,
        text: "(Batch and don't reclaim buffers)",
    },
];

const MEMORY: &[Choice] = &[
    Choice {
        number: 0,
        text: "(Malloc)",
    },
    Choice {
        number: 1,
        text: "(Contig Pages)",
    },
    Choice {
        number: 2,
        text: "(Huge Pages)",
    },
    Choice {
        number: 3,
        text: "(Contig Pages)",
    },
];

pub(super) const PARAMETERS: [Parameter; 6] = [
    Parameter::new(
        "VMA_INTERNAL_THREAD_AFFINITY",
        "Internal Thread Affinity",
        Kind::CpuSet { default: "-1" },
    )
    .about(
        "On which processors the internal thread may run.",
        "A mask or a list as for taskset(1). -1 leaves it to the kernel. Best on the program's NUMA \
         node, away from its polling threads.",
    ),
    Parameter::new(
        "VMA_INTERNAL_THREAD_CPUSET",
        "Internal Thread Cpuset",
        Kind::Path { default: "", expands_pid: false },
    )
    .about(
        "The cpuset directory that the internal thread is put into.",
        "See cpuset(7). Empty leaves the thread where the process is.",
    ),
    flag("VMA_INTERNAL_THREAD_ARM_CQ", "Internal Thread Arm CQ", false).about(
        "Let the internal thread wake for each packet.",
        "It then processes packets at once while the program is busy elsewhere. Costs a wake-up for \
         each burst of packets, and calls of the program wait while it works.",
    ),
    choice("VMA_THREAD_MODE", "Thread mode", 1, THREAD_MODES).form(Form::ChoiceText).about(
        "How accelerated sockets are protected against use by several threads at once.",
        "0: not at all, for programs that use sockets from one thread only; the fastest. 1: with \
         spin locks. 2: with mutexes. 3: with spin locks that yield, for programs with more threads \
         than processors.",
    ),
    choice("VMA_BUFFER_BATCHING_MODE", "Buffer batching mode", 1, BATCHING)
        .no_meaning("sockets keep no buffers of their own")
        .about(
            "Whether each socket keeps some buffers for itself.",
            "Saves trips to the shared pool. With 1 unused buffers are taken back from time to time.",
        ),
    choice("VMA_MEM_ALLOC_TYPE", "Mem Allocate type", 2, MEMORY).about(
        "What kind of memory buffers are made of.",
        "0: ordinary pages. 1: large pages where the kernel finds some (transparent huge pages). 2: \
         huge pages of 2 MiB from the system's reserve (/proc/sys/vm/nr_hugepages); if there are not \
         enough, as 1, with a warning if this variable is set. 3: as 1.",
    ),
];
