//! The AF_XDP back-end: parameters that the original does not have.

use super::build::number;
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

pub(super) const PARAMETERS: [Parameter; 2] = [
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
        "auto takes what measures faster for the interface's driver and falls back to generic. \
         native needs a driver with XDP support; an interface without it is then not accelerated.",
    ),
    number(
        "VMA_XDP_POOL_FRAMES",
        "XDP pool frames",
        8192,
        (1024, 1_048_576),
    )
    .rule(Rule::PowerOfTwo)
    .about(
        "How many frames of 2 KiB all rings of the process share.",
        "Holds packets that were received and not read yet, and packets on their way out. The \
             default takes 16 MiB. While no frame is free, packets are lost.",
    ),
];
