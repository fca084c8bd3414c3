//! Completion queues: draining, interrupt moderation, batching.

use super::build::{ANY_U32, FULL_QUEUE, NO_MODERATION, ONE_POOL, flag, number};
use super::{Form, Parameter};

pub(super) const PARAMETERS: [Parameter; 12] = [
    number("VMA_PROGRESS_ENGINE_INTERVAL", "CQ Drain Interval (msec)", 10, ANY_U32)
        .form(Form::ZeroDisabled { label: "CQ Drain Thread", always_info: true })
        .about(
            "How often, in milliseconds, the internal thread drains rings that nobody polls.",
            "A ring from which a call of the program has received since the last time is left alone. \
             After a second without packets the thread sleeps until one comes. 0 never drains them: \
             peers of TCP connections then wait until the program calls.",
        ),
    number("VMA_PROGRESS_ENGINE_WCE_MAX", "CQ Drain WCE (max)", 10_000, ANY_U32)
        .form(Form::UnlessZero("VMA_PROGRESS_ENGINE_INTERVAL"))
        .about(
            "How many packets the internal thread takes from a ring at a time.",
            "It stops after the batch (VMA_CQ_POLL_BATCH_MAX) that reaches the number. 0 turns draining off, like a zero VMA_PROGRESS_ENGINE_INTERVAL.",
        ),
    flag("VMA_CQ_MODERATION_ENABLE", "CQ Interrupts Moderation", true).about(
        "Let packets of a stream that nobody answers collect before they wake a thread that sleeps.",
        "Where two or more packets come in a period, a thread that would sleep until the next one sleeps for the \
         period instead, which the kernel makes up to 50 us longer (PR_SET_TIMERSLACK). A thread that polls takes each at once. Interfaces on which \
         every 32nd packet is answered are not moderated. Off by default when VMA_RX_POLL or VMA_SELECT_POLL \
         is -1. The card's own moderation is its driver's (see ethtool -C).",
    ),
    number("VMA_CQ_MODERATION_COUNT", "CQ Moderation Count", 48, ANY_U32).about(
        "How many packets to collect before a sleeping thread is woken.",
        "As far as can be foreseen from the rate of the last 256. At most half of VMA_RX_WRE.",
    ),
    number("VMA_CQ_MODERATION_PERIOD_USEC", "CQ Moderation Period (usec)", 50, ANY_U32).about(
        "How long, in microseconds, packets collect before a sleeping thread is woken.",
        "Whichever of count and period is reached first wakes it.",
    ),
    number("VMA_CQ_AIM_MAX_COUNT", "CQ AIM Max Count", 560, ANY_U32)
        .no_meaning(NO_MODERATION)
        .about(
            "The largest count that adaptive moderation may choose.",
            "At most half of VMA_RX_WRE.",
        ),
    number("VMA_CQ_AIM_MAX_PERIOD_USEC", "CQ AIM Max Period (usec)", 250, ANY_U32)
        .no_meaning(NO_MODERATION)
        .about(
            "The longest period, in microseconds, that adaptive moderation may choose.",
            "Bounds the latency that moderation can add.",
        ),
    number("VMA_CQ_AIM_INTERVAL_MSEC", "CQ AIM Interval (msec)", 250, ANY_U32)
        .form(Form::ZeroDisabled { label: "CQ Adaptive Moderation", always_info: true })
        .no_meaning(NO_MODERATION)
        .about(
            "How often, in milliseconds, to adapt moderation to the traffic.",
            "0 never adapts it; always 0 when VMA_CQ_MODERATION_ENABLE is off.",
        ),
    number(
        "VMA_CQ_AIM_INTERRUPTS_RATE_PER_SEC",
        "CQ AIM Interrupts Rate (per sec)",
        5000,
        ANY_U32,
    )
    .no_meaning(NO_MODERATION)
    .about(
        "The interrupt rate that adaptive moderation aims at.",
        "In interrupts a second for each ring.",
    ),
    number("VMA_CQ_POLL_BATCH_MAX", "CQ Poll Batch (max)", 16, (1, 128)).about(
        "How many packets one poll takes from a ring at most.",
        "Larger batches cost less for each packet; smaller ones hand over the first packet sooner.",
    ),
    flag("VMA_CQ_KEEP_QP_FULL", "CQ Keeps QP Full", true).no_meaning(FULL_QUEUE).about(
        "Refill the receive queue after every packet.",
        "Without a free buffer the packet just received is dropped and its buffer used. When off, \
         the queue is refilled once buffers are free.",
    ),
    number("VMA_QP_COMPENSATION_LEVEL", "QP Compensation Level", 256, ANY_U32)
        .no_meaning(ONE_POOL)
        .about(
            "How many spare buffers each completion queue keeps for refilling.",
            "At least VMA_RX_WRE_BATCHING.",
        ),
];
