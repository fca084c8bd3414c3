//! Receiving: buffers, polling and prefetching.

use super::build::{ANY_U32, ONE_POOL, POLL_LIMIT, choice, number};
use super::{Choice, Form, Parameter, Rule};

const TIMESTAMPS: &[Choice] = &[
    Choice {
        number: 0,
        text: "(Disabled)",
    },
    Choice {
        number: 1,
        text: "(Raw hardware time)",
    },
    Choice {
        number: 2,
        text: "(Best possible)",
    },
    Choice {
        number: 3,
        text: "(Synchronised to system time)",
    },
    Choice {
        number: 4,
        text: "(PTP)",
    },
];

pub(super) const PARAMETERS: [Parameter; 13] = [
    number("VMA_RX_BUFS", "Rx Mem Bufs", 200_000, ANY_U32).no_meaning(ONE_POOL).about(
        "How many buffers there are for incoming packets.",
        "Shared by all rings. More buffers carry longer bursts and take more memory.",
    ),
    number("VMA_RX_WRE", "Rx QP WRE", 16_000, ANY_U32).about(
        "How many empty frames the receive queue of an RDMA device holds.",
        "At least twice VMA_RX_WRE_BATCHING, and half of VMA_XDP_POOL_FRAMES at most.",
    ),
    number("VMA_RX_WRE_BATCHING", "Rx QP WRE Batching", 64, (1, 1024)).about(
        "How many frames to collect before they are given to that queue.",
        "Larger values lower the average latency and raise its spread.",
    ),
    number("VMA_RX_BYTES_MIN", "Rx Byte Min Limit", 65_536, ANY_U32).about(
        "The least a UDP socket may have waiting, in bytes.",
        "A program that asks for less with SO_RCVBUF gets this much. Datagrams beyond the limit are \
         dropped and counted.",
    ),
    number("VMA_RX_POLL", "Rx Poll Loops", 100_000, POLL_LIMIT).about(
        "How often a blocking receive polls in vain before it sleeps.",
        "A poll that finds a packet saves the wake-up, at the price of processor time. -1 polls for \
         ever: the lowest latency, and a processor of its own for each polling thread. 1 suits \
         machines without processors to spare; 0 counts as 1. Applies to read(), recv() and their \
         relatives.",
    ),
    number("VMA_RX_POLL_INIT", "Rx Poll Init Loops", 0, POLL_LIMIT).no_meaning("a socket that nothing is steered to yet is the kernel's").about(
        "The same as VMA_RX_POLL for a UDP socket that nothing is steered to yet.",
        "Takes effect until the socket is bound or joins a group.",
    ),
    number("VMA_RX_UDP_POLL_OS_RATIO", "Rx UDP Poll OS Ratio", 100, ANY_U32).zero_disabled().about(
        "After how many polls of the ring a UDP receive looks into the kernel's socket once.",
        "Datagrams that reach the socket through the kernel (other interfaces, fragments) wait for \
         this. Datagrams from the ring count, too. Smaller values notice them sooner and cost system calls; 0 never looks.",
    ),
    choice("VMA_HW_TS_CONVERSION", "HW TS Conversion", 3, TIMESTAMPS)
        .form(Form::Number)
        .about(
            "How the card's receive timestamps are converted.",
            "Applies to UDP sockets that ask for SO_TIMESTAMPING with hardware time, and to the extra API's \
             hw_timestamp. Past the kernel the card's driver is asked, in native mode (Linux 6.3). 1: told is what it \
             says. 2: the system's time where the card's clock (/dev/ptp*) can be compared with it, once a second, else \
             as 1. 3: that, else nothing. 4: as 1 where there is such a clock, which a PTP daemon sets, else nothing. 0: \
             nothing. Each interface for itself. If a card's time is not shown past the kernel (generic mode, a broker, \
             a driver without it), such sockets are the kernel's, and get what the card says.",
        ),
    number("VMA_RX_POLL_YIELD", "Rx Poll Yield", 0, ANY_U32)
        .zero_disabled()
        .about(
            "After how many polls in vain a polling thread offers its processor to others.",
            "For programs with more polling threads than processors. 0 never yields.",
        ),
    number("VMA_RX_PREFETCH_BYTES", "Rx Prefetch Bytes", 256, (32, 2044)).about(
        "How many bytes of an incoming packet to bring into the cache.",
        "Should cover the headers and the part of the payload that the program reads first. Of a \
         shorter packet no more than it has.",
    ),
    number("VMA_RX_PREFETCH_BYTES_BEFORE_POLL", "Rx Prefetch Bytes Before Poll", 0, (0, 2044))
        .rule(Rule::ZeroOrAtLeast(32))
        .no_meaning("the driver chooses the frame of the next packet")
        .about(
            "How many bytes of the next expected packet to prefetch before it has arrived.",
            "Helps when packets are rare. 0 prefetches nothing.",
        ),
    number("VMA_RX_CQ_DRAIN_RATE_NSEC", "Rx CQ Drain Rate (nsec)", 0, ANY_U32)
        .form(Form::ZeroDisabled { label: "Rx CQ Drain Rate", always_info: false })
        .about(
            "How often a receive that has packets waiting polls the ring all the same.",
            "In nanoseconds between two polls of a socket; 100 to 5000 is sensible. Gives a truer view of the \
             queue's length. 0 polls only when nothing is waiting.",
        ),
    number("VMA_GRO_STREAMS_MAX", "GRO max streams", 32, (0, 2_147_483_647))
        .no_meaning("segments that the interface has merged are taken as they are, whatever their number")
        .about(
            "For how many TCP streams at once to join neighbouring segments.",
            "0 joins none.",
        ),
];
