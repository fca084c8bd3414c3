//! select(), poll() and epoll_wait().

use super::Parameter;
use super::build::{ANY_U32, POLL_LIMIT, number};

pub(super) const PARAMETERS: [Parameter; 3] = [
    number("VMA_SELECT_POLL", "Select Poll (usec)", 100_000, POLL_LIMIT).about(
        "How long, in microseconds, select(), poll() and epoll_wait() poll before they sleep.",
        "Never longer than the call's own timeout. -1 polls until the call ends; 0 looks once and \
         then sleeps.",
    ),
    number(
        "VMA_SELECT_POLL_OS_RATIO",
        "Select Poll OS Ratio",
        10,
        ANY_U32,
    )
    .zero_disabled()
    .about(
        "After how many polls of the rings select() and its relatives ask the kernel once.",
        "Descriptors that are not accelerated wait for this. Smaller values notice them sooner and \
         cost system calls; 0 asks only before sleeping. While a call finds nothing there, it asks after twice as \
         many, up to 16 times as many.",
    ),
    number("VMA_SELECT_SKIP_OS", "Select Skip OS", 4, ANY_U32)
        .zero_disabled()
        .about(
            "After how many calls that find an accelerated socket ready at once to ask the kernel too.",
            "Keeps descriptors that are not accelerated from starving. 0 asks only when no \
             accelerated socket is ready.",
        ),
];
