//! Sending: segments, buffers and queue entries.

use super::build::{ANY_U32, NO_PREFETCH, ONE_POOL, flag, number};
use super::{Form, Parameter};

pub(super) const PARAMETERS: [Parameter; 9] = [
    number("VMA_TCP_MAX_SYN_RATE", "TCP max syn rate", 0, (0, 100_000))
        .form(Form::NumberWithText { zero: "(no limit)", other: "(per sec)" })
        .about(
            "How many connection requests a second each listening socket accepts.",
            "Further requests are dropped, and the peer repeats them. 0 is no limit.",
        ),
    number("VMA_TX_SEGS_TCP", "Tx Mem Segs TCP", 1_000_000, ANY_U32).no_meaning("what was written is bounded by SO_SNDBUF").about(
        "How many TCP segments may be waiting to be sent or acknowledged.",
        "Counted over all connections of the process.",
    ),
    number("VMA_TX_BUFS", "Tx Mem Bufs", 200_000, ANY_U32).no_meaning(ONE_POOL).about(
        "How many buffers there are for outgoing packets.",
        "More buffers carry longer bursts and take more memory.",
    ),
    number("VMA_TX_WRE", "Tx QP WRE", 2048, ANY_U32).about(
        "How many frames the send queue of an RDMA device holds.",
        "At least twice VMA_TX_WRE_BATCHING; the largest value depends on VMA_TX_MAX_INLINE.",
    ),
    number("VMA_TX_WRE_BATCHING", "Tx QP WRE Batching", 64, (1, 64)).about(
        "How many packets to send before an RDMA device is asked for a completion.",
        "Smaller values spread the work of freeing buffers more evenly.",
    ),
    number("VMA_TX_MAX_INLINE", "Tx Max QP INLINE", 204, (0, 884)).about(
        "The longest packet, in bytes, that is copied into the send queue of an RDMA device.",
        "The packet's headers count. 0 copies none. A device that knows less copies none, either.",
    ),
    flag("VMA_TX_MC_LOOPBACK", "Tx MC Loopback", true).about(
        "Whether sockets start with IP_MULTICAST_LOOP on.",
        "A program that sets the option itself is not affected. While it is on, datagrams to a group that \
         any socket of this host has joined go through the kernel, which gives them to those.",
    ),
    flag("VMA_TX_NONBLOCKED_EAGAINS", "Tx non-blocked eagains", false).about(
        "Whether a non-blocking UDP send without a free buffer fails with EAGAIN.",
        "When off, such a datagram is sent by the kernel.",
    ),
    number("VMA_TX_PREFETCH_BYTES", "Tx Prefetch Bytes", 256, ANY_U32).no_meaning(NO_PREFETCH).about(
        "How many bytes of a send buffer to bring into the cache ahead of the copy.",
        "0 prefetches nothing.",
    ),
];
