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

pub(super) const PARAMETERS: [Parameter; 3] = [
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
        "auto takes what measures faster for the interface's driver, and the other mode if that fails. \
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
    flag("VMA_POLL_SHARED_CPU", "Poll Shared CPU", false).about(
        "Poll on a processor that other threads need, too.",
        "By default a thread offers its processor now and then while it polls, and sleeps instead of \
         polling where others take it; with polling for ever it goes on offering. 1 polls whatever \
         that costs the others, a peer on the same processor among them: milliseconds.",
    ),
];
