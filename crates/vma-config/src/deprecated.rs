//! Variables of older releases: what took their place.

use crate::params::ParameterId;

/// A variable of an older release.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// The name of the environment variable.
    pub name: &'static str,
    /// What to use instead, as a sentence.
    pub advice: &'static str,
    /// How its value still takes effect.
    pub(crate) forward: Forward,
}

/// How the value of a variable of an older release still takes effect. A variable that took its
/// place always wins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Forward {
    /// Not at all.
    Nowhere,
    /// As the value of this parameter.
    Value(ParameterId),
    /// When it is on, these parameters get these numbers.
    Switch(&'static [(ParameterId, i64)]),
}

const fn gone(name: &'static str, advice: &'static str) -> Deprecated {
    Deprecated {
        name,
        advice,
        forward: Forward::Nowhere,
    }
}

const fn renamed(name: &'static str, to: &str, advice: &'static str) -> Deprecated {
    Deprecated {
        name,
        advice,
        forward: Forward::Value(ParameterId::of(to)),
    }
}

/// Every variable of an older release that is still recognised.
pub static DEPRECATED: &[Deprecated] = &[
    renamed(
        "VMA_RX_POLL_OS_RATIO",
        "VMA_RX_UDP_POLL_OS_RATIO",
        "use VMA_RX_UDP_POLL_OS_RATIO instead",
    ),
    renamed(
        "VMA_RX_SKIP_OS",
        "VMA_RX_UDP_POLL_OS_RATIO",
        "use VMA_RX_UDP_POLL_OS_RATIO instead",
    ),
    renamed(
        "VMA_MAX_INLINE",
        "VMA_TX_MAX_INLINE",
        "use VMA_TX_MAX_INLINE instead",
    ),
    renamed(
        "VMA_CQ_DRAIN_WCE_MAX",
        "VMA_PROGRESS_ENGINE_WCE_MAX",
        "use VMA_PROGRESS_ENGINE_WCE_MAX instead",
    ),
    Deprecated {
        name: "VMA_SELECT_POLL_OS_FORCE",
        advice: "use VMA_SELECT_POLL_OS_RATIO=1 and VMA_SELECT_SKIP_OS=1 instead",
        forward: Forward::Switch(&[
            (ParameterId::of("VMA_SELECT_POLL_OS_RATIO"), 1),
            (ParameterId::of("VMA_SELECT_SKIP_OS"), 1),
        ]),
    },
    gone("VMA_HUGETBL", "use VMA_MEM_ALLOC_TYPE=2 instead"),
    gone(
        "VMA_QP_LOGIC",
        "use VMA_RING_ALLOCATION_LOGIC_TX and VMA_RING_ALLOCATION_LOGIC_RX instead",
    ),
    gone(
        "VMA_INTERNAL_THREAD_TCP_TIMER_HANDLING",
        "use VMA_TCP_CTL_THREAD instead",
    ),
    gone(
        "VMA_IPOIB",
        "InfiniBand interfaces are left to the kernel; nothing replaces it",
    ),
    gone(
        "VMA_TX_OFFLOAD",
        "to leave what is sent to the kernel, use \"use os udp_sender *:*\" in libvma.conf",
    ),
    gone(
        "VMA_RX_OFFLOAD",
        "to leave what is received to the kernel, use \"use os udp_receiver *:*\" in libvma.conf",
    ),
    gone(
        "VMA_UC_OFFLOAD",
        "unicast is accelerated; to leave it to the kernel, use rules for its addresses in libvma.conf, or \
         VMA_OFFLOADED_SOCKETS=0 for everything",
    ),
    gone(
        "VMA_IGMP",
        "the kernel speaks IGMP for every group; nothing replaces it",
    ),
    gone(
        "VMA_TX_BLOCK",
        "the socket's own blocking mode always applies; nothing replaces it",
    ),
    gone(
        "VMA_TX_IP_CHECKSUM",
        "checksums cannot be turned off; nothing replaces it",
    ),
    gone(
        "VMA_CHECKSUM",
        "checksums cannot be turned off; nothing replaces it",
    ),
    gone(
        "VMA_TX_DROP_MODE",
        "it was a debugging aid; nothing replaces it",
    ),
    gone(
        "VMA_RX_SOCKET_MAX",
        "use the socket option SO_RCVBUF or VMA_RX_BYTES_MIN, in bytes",
    ),
    gone("VMA_RX_DRAIN_CQ", "use VMA_RX_CQ_DRAIN_RATE_NSEC instead"),
    gone(
        "VMA_SKIP_OS_CALL",
        "use VMA_RX_UDP_POLL_OS_RATIO and VMA_SELECT_SKIP_OS instead",
    ),
    gone(
        "VMA_SELECT_IB_INTR",
        "select() always sleeps until an event once VMA_SELECT_POLL is over; nothing replaces it",
    ),
    gone(
        "VMA_FORCE_QP_MC_ATTACH",
        "how groups are joined cannot be chosen; nothing replaces it",
    ),
];

impl Deprecated {
    /// Finds a variable of an older release by its exact name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        DEPRECATED.iter().find(|deprecated| deprecated.name == name)
    }
}
