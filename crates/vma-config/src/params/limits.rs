//! Neighbour resolution, packet sizes and compatibility switches.

use super::build::{ANY_U32, NO_NEIGHBOURS, choice, flag, number};
use super::{Choice, Form, Parameter};

const CONGESTION: &[Choice] = &[
    Choice {
        number: 0,
        text: "(LWIP)",
    },
    Choice {
        number: 1,
        text: "(CUBIC)",
    },
    Choice {
        number: 2,
        text: "(NONE)",
    },
];

pub(super) const PARAMETERS: [Parameter; 14] = [
    number("VMA_NEIGH_UC_ARP_QUATA", "Num of UC ARPs", 3, ANY_U32)
        .no_meaning(NO_NEIGHBOURS)
        .about(
            "How often to ask a stale neighbour directly before asking by broadcast.",
            "The spelling of the name is historical.",
        ),
    number(
        "VMA_NEIGH_UC_ARP_DELAY_MSEC",
        "UC ARP delay (msec)",
        10_000,
        ANY_U32,
    )
    .no_meaning(NO_NEIGHBOURS)
    .about(
        "How long, in milliseconds, to wait between direct ARP requests.",
        "Concerns stale neighbours.",
    ),
    number(
        "VMA_NEIGH_NUM_ERR_RETRIES",
        "Num of neigh restart retries",
        1,
        ANY_U32,
    )
    .no_meaning(NO_NEIGHBOURS)
    .about(
        "How often to start over when resolving a neighbour failed.",
        "Packets to the neighbour wait meanwhile.",
    ),
    flag("VMA_SOCKETXTREME", "SocketXtreme mode", false)
        .about(
            "Receive through the SocketXtreme calls instead of the socket calls.",
            "Presets VMA_RX_WRE to 1024 and VMA_GRO_STREAMS_MAX to 0, and turns draining by the \
         internal thread off.",
        ),
    flag("VMA_BF", "BF (Blue Flame)", true)
        .about(
            "Use the BlueFlame doorbells of ConnectX cards.",
            "A short request that leaves alone is written to the card as a whole, which saves it a \
             read of memory.",
        ),
    flag("VMA_FORK", "fork() support", true)
        .about(
            "Prepare the RDMA libraries for fork().",
            "Keeps memory that the card uses out of child processes.",
        ),
    flag("VMA_CLOSE_ON_DUP2", "close on dup2()", true)
        .no_meaning("the target of dup2() is always closed, as in the kernel")
        .about(
            "Whether dup2() closes an accelerated socket that it replaces.",
            "When off, the original leaves the socket's state behind.",
        ),
    number("VMA_MTU", "MTU", 0, ANY_U32)
        .form(Form::NumberWithText {
            zero: "(follow actual MTU)",
            other: "",
        })
        .about(
            "The largest packet of TCP connections on all interfaces, in bytes.",
            "0 follows each interface, whose MTU is the most in any case. What is below 576 counts as that. \
             Datagrams that are longer than the interface's MTU are fragmented by the kernel, as that says.",
        ),
    number("VMA_MSS", "MSS", 0, ANY_U32)
        .form(Form::NumberWithText {
            zero: "(follow VMA_MTU)",
            other: "",
        })
        .about(
            "The largest TCP payload of a packet, in bytes (TCP_MAXSEG), where the program says nothing else.",
            "0 is the MTU less 40 bytes for the headers. 88 to 32767: what is below or above counts as these.",
        ),
    choice("VMA_TCP_CC_ALGO", "TCP CC Algorithm", 0, CONGESTION)
        .about(
            "How TCP reacts to congestion, where the program does not choose (TCP_CONGESTION).",
            "0: NewReno. 1: CUBIC. 2: not at all, for networks without loss. If it is not set, connections \
         follow net.ipv4.tcp_congestion_control: reno, cubic or bbr, and CUBIC for any other.",
        ),
    flag("VMA_DEFERRED_CLOSE", "Deferred close", false)
        .no_meaning("the kernel's socket is never closed before")
        .about(
            "Close the kernel's socket only when the library's is gone.",
            "Keeps the port from being used again too early.",
        ),
    flag("VMA_RX_POLL_ON_TX_TCP", "Polling Rx on Tx TCP", false)
        .about(
            "Poll for incoming packets while sending over TCP.",
            "Each send polls once more when it has sent. What came before is noticed in any case; what comes \
             later by the next call, and after VMA_PROGRESS_ENGINE_INTERVAL.",
        ),
    flag(
        "VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME",
        "Trig dummy send getsockname()",
        false,
    )
    .about(
        "Let getsockname() go through the motions of a send.",
        "Concerns connected UDP sockets. Keeps caches warm when messages are rare; nothing leaves.",
    ),
    number("VMA_NETLINK_TIMER", "", 10_000, ANY_U32)
        .no_meaning("changes are taken from netlink as they are announced")
        .about(
            "How often, in milliseconds, to read netlink events.",
            "Routes, neighbours and links.",
        ),
];
