//! Which ring a socket uses.

use super::build::{NEEDS_RDMA, NOT_NEGATIVE, choice, number};
use super::{Choice, Form, Parameter};

const LOGIC: &[Choice] = &[
    Choice {
        number: 0,
        text: "(Ring per interface)",
    },
    Choice {
        number: 1,
        text: "(Ring per ip)",
    },
    Choice {
        number: 10,
        text: "(Ring per socket)",
    },
    Choice {
        number: 20,
        text: "(Ring per thread)",
    },
    Choice {
        number: 30,
        text: "(Ring per core)",
    },
    Choice {
        number: 31,
        text: "(Ring per core - attach threads)",
    },
];

const MIGRATION: &str = "With a ring per thread or core, every so many accesses the library looks \
     whether another thread uses the socket and then moves it to that thread's ring. -1 never moves \
     a socket.";

pub(super) const PARAMETERS: [Parameter; 6] = [
    choice(
        "VMA_RING_ALLOCATION_LOGIC_TX",
        "Ring allocation logic TX",
        0,
        LOGIC,
    )
    .about(
        "Which sockets share a ring for sending.",
        "Each ring is a transmit queue of the device with a lock of its own: threads that send by two \
             do not wait for each other. An interface has as many as it has queues (ethtool -l); more \
             threads, cores or sockets than that share them. The thread is that which makes a UDP \
             socket, and which connects or accepts a stream.",
    ),
    choice(
        "VMA_RING_ALLOCATION_LOGIC_RX",
        "Ring allocation logic RX",
        0,
        LOGIC,
    )
    .about(
        "Which sockets share a ring for receiving.",
        "Each ring is one or more receive queues of the device with a lock of its own: threads that \
             receive by two do not wait for each other. An interface has as many as it has queues \
             (ethtool -l), 64 at most; more threads, cores or sockets than that share them. Packets \
             that come by the queue of another ring than their socket's are delivered, too, but not \
             as fast. A thread that polls sockets of several rings polls each of them. The thread is \
             that which binds or connects a socket, or accepts a stream.",
    ),
    number(
        "VMA_RING_MIGRATION_RATIO_TX",
        "Ring migration ratio TX",
        100,
        (-1, 2_147_483_647),
    )
    .about(
        "How often to consider moving a socket to another ring for sending.",
        MIGRATION,
    ),
    number(
        "VMA_RING_MIGRATION_RATIO_RX",
        "Ring migration ratio RX",
        100,
        (-1, 2_147_483_647),
    )
    .about(
        "How often to consider moving a socket to another ring for receiving.",
        MIGRATION,
    ),
    number(
        "VMA_RING_LIMIT_PER_INTERFACE",
        "Ring limit per interface",
        0,
        NOT_NEGATIVE,
    )
    .form(Form::NumberWithText {
        zero: "(no limit)",
        other: "",
    })
    .about(
        "The most rings that one interface may have, for sending and for receiving each.",
        "When it is reached, sockets share the rings there are. 0 is no limit but the interface's \
             queues.",
    ),
    number(
        "VMA_RING_DEV_MEM_TX",
        "Ring On Device Memory TX",
        0,
        NOT_NEGATIVE,
    )
    .no_effect(NEEDS_RDMA)
    .about(
        "Bytes of memory on the card for each ring's outgoing packets.",
        "Saves a transfer over the bus for packets that are too long to be sent inline. 0 uses \
             none.",
    ),
];
