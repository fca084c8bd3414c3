//! Sockets: what each is, what it did, and what it is a member of.

use std::mem::offset_of;

use crate::cache_line::CACHE_LINE_BYTES;
use crate::counter::{Counter, Gauge, Peak};
use crate::field::endpoint::Endpoint;
use crate::field::histogram::Histogram;
use crate::field::reasons::ReasonCounters;
use crate::field::scalar::{Descriptor, Flag, LargeNumber, Number};
use crate::schema::entry::{Remark120, entry};

/// [`SocketStats::protocol`] of a TCP socket (IANA protocol number).
pub const PROTOCOL_TCP: u32 = 6;
/// [`SocketStats::protocol`] of a UDP socket (IANA protocol number).
pub const PROTOCOL_UDP: u32 = 17;

entry! {
    /// What one socket is and what it did.
    ///
    /// Receive and send counters lie on different cache lines, so a receiving and a sending thread
    /// do not slow each other down.
    SocketStats,
    /// A [`SocketStats`] at one moment.
    SocketSnapshot by slot,
    {
        fd: Descriptor, "", "file descriptor of the socket; -1 while it is not known";
        protocol: Number, "", "protocol number: 6 TCP, 17 UDP";
        offloaded: Flag, "", "whether the socket runs in user space";
        reason: Number, "", "why the socket is not offloaded: a code of the reasons section";
        inode: LargeNumber, "", "inode of the kernel socket";
        rx_thread: Number, "", "thread that received last (tid)";
        tx_thread: Number, "", "thread that sent last (tid)";
        rule: Number, "", "rule that decided it, counted from 1 in the rules section; 0 = none";
        closed: LargeNumber, "", "of a closed socket: how many were closed up to this one; else 0";
    }
    addresses {
        local: Endpoint, "", "local address and port";
    }
    peer_address {
        peer: Endpoint, "", "address and port of the peer";
    }
    rx {
        rx_packets: Counter, "packets", "messages or segments received in user space";
        rx_bytes: Counter, "bytes", "payload received in user space";
        rx_poll_hit: Counter, "polls", "receive calls that found data while they polled";
        rx_poll_miss: Counter, "polls", "receive calls that polled in vain and went to sleep";
        rx_queue_packets: Gauge, "packets", "packets that wait to be read";
        rx_queue_bytes: Gauge, "bytes", "bytes that wait to be read";
        rx_queue_packets_max: Peak, "packets", "the most packets that ever waited to be read";
        rx_dropped_packets: Counter, "packets", "packets dropped because the socket's queue was full";
    }
    rx_rare {
        rx_dropped_bytes: Counter, "bytes", "bytes dropped because the socket's queue was full";
        rx_eagain: Counter, "calls", "receive calls that returned EAGAIN in user space";
        rx_errors: Counter, "calls", "receive calls that failed in user space";
        rx_os_packets: Counter, "packets", "receive calls that the kernel answered with data";
        rx_os_bytes: Counter, "bytes", "payload received through the kernel";
        rx_os_eagain: Counter, "calls", "receive calls that returned EAGAIN from the kernel";
        rx_os_errors: Counter, "calls", "receive calls that failed in the kernel";
    }
    tx {
        tx_packets: Counter, "packets", "messages or segments sent from user space";
        tx_bytes: Counter, "bytes", "payload sent from user space";
        tx_eagain: Counter, "calls", "send calls that returned EAGAIN in user space";
        tx_errors: Counter, "calls", "send calls that failed in user space";
        tx_os_packets: Counter, "packets", "send calls that the kernel carried out";
        tx_os_bytes: Counter, "bytes", "payload sent through the kernel";
        tx_os_eagain: Counter, "calls", "send calls that returned EAGAIN from the kernel";
        tx_os_errors: Counter, "calls", "send calls that failed in the kernel";
    }
    explanation {
        detail: Remark120, "", "what the reason is about: an option, a process, a group; may be empty";
    }
    rx_reasons {
        rx_os_reasons: ReasonCounters, "packets", "rx_os_packets by the reason for which the kernel received them: codes of the reasons section";
    }
    tx_reasons {
        tx_os_reasons: ReasonCounters, "packets", "tx_os_packets by the reason for which the kernel sent them: codes of the reasons section";
    }
    options {
        nonblocking: Flag, "", "whether calls return EAGAIN instead of waiting (O_NONBLOCK)";
        mc_loop_off: Flag, "", "whether IP_MULTICAST_LOOP is off";
        tcp_state: Number, "", "state of the TCP connection as ss(8) numbers it; 0 = none";
        mc_interface: Endpoint, "", "address of the interface that multicast is sent through, if one was chosen (IP_MULTICAST_IF)";
    }
    rx_more {
        rx_queue_bytes_max: Peak, "bytes", "the most bytes that ever waited to be read";
        rx_queue_bytes_limit: Gauge, "bytes", "bytes that may wait to be read (SO_RCVBUF)";
        rx_zero_copy_packets: Gauge, "packets", "packets that the program holds without a copy";
        rx_migrations: Counter, "moves", "moves of the socket's receiving to another ring";
    }
    tx_more {
        tx_queue_bytes: Gauge, "bytes", "bytes that wait to be sent or acknowledged";
        tx_retransmits: Counter, "segments", "segments sent again";
        tx_migrations: Counter, "moves", "moves of the socket's sending to another ring";
        tx_dummy: Counter, "messages", "messages that only warmed the send path up";
    }
    latency {
        rx_latency: Histogram, "nanoseconds", "time from a frame's arrival in user space to its delivery to a call, of a sample of the messages";
    }
}

entry! {
    /// A socket of a kind that is never accelerated.
    KernelSocketStats,
    /// A [`KernelSocketStats`].
    KernelSocketSnapshot by slot,
    {
        fd: Descriptor, "", "file descriptor of the socket; -1 while it is not known";
        protocol: Number, "", "protocol number: 6 TCP, 17 UDP";
        reason: Number, "", "why it is the kernel's: a code of the reasons section";
    }
}

entry! {
    /// A TCP connection in user space.
    TcpStats,
    /// A [`TcpStats`] at one moment.
    TcpSnapshot by slot,
    {
        fd: Descriptor, "", "file descriptor of the connection; -1 while it is not known";
        state: Number, "", "state of the connection as ss(8) numbers it: 1 ESTABLISHED to 11 CLOSING";
        inode: LargeNumber, "", "inode of the kernel socket";
        snd_una: Number, "", "oldest sequence number that is not acknowledged";
        snd_nxt: Number, "", "next sequence number to send";
        rcv_nxt: Number, "", "next sequence number that is expected";
        mss: Number, "bytes", "largest payload of a segment";
    }
    addresses {
        local: Endpoint, "", "local address and port";
    }
    peer_address {
        peer: Endpoint, "", "address and port of the peer";
    }
    flow {
        cwnd: Gauge, "bytes", "congestion window";
        ssthresh: Gauge, "bytes", "slow start threshold";
        snd_wnd: Gauge, "bytes", "window of the peer";
        rcv_wnd: Gauge, "bytes", "window that the peer has been given";
        srtt_usec: Gauge, "microseconds", "smoothed round trip time";
        rttvar_usec: Gauge, "microseconds", "variation of the round trip time";
        rto_usec: Gauge, "microseconds", "retransmission timeout";
        unacked_bytes: Gauge, "bytes", "bytes that are sent and not acknowledged";
    }
    queues {
        tx_queue_bytes: Gauge, "bytes", "bytes that wait to be sent or acknowledged";
        rx_queue_bytes: Gauge, "bytes", "bytes that wait to be read";
        retransmits: Counter, "segments", "segments sent again";
        timeouts: Counter, "timeouts", "retransmission timeouts";
        out_of_order: Counter, "segments", "segments received out of order";
        duplicate_acks: Counter, "segments", "duplicate acknowledgements received";
    }
}

entry! {
    /// A socket's membership in a multicast group.
    GroupStats,
    /// A [`GroupStats`] at one moment.
    GroupSnapshot by slot,
    {
        fd: Descriptor, "", "file descriptor of the member; -1 while it is not known";
    }
    addresses {
        group: Endpoint, "", "address of the group";
    }
}

// The file format of this major version: sizes, and the first field of every cache line.
const _: () = assert!(size_of::<SocketStats>() == 40 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<KernelSocketStats>() == CACHE_LINE_BYTES);
const _: () = assert!(offset_of!(SocketStats, fd) == 8);
const _: () = assert!(offset_of!(SocketStats, local) == 64);
const _: () = assert!(offset_of!(SocketStats, peer) == 128);
const _: () = assert!(offset_of!(SocketStats, rx_packets) == 192);
const _: () = assert!(offset_of!(SocketStats, rx_dropped_bytes) == 256);
const _: () = assert!(offset_of!(SocketStats, tx_packets) == 320);
const _: () = assert!(offset_of!(SocketStats, detail) == 384);
const _: () = assert!(offset_of!(SocketStats, rx_os_reasons) == 512);
const _: () = assert!(offset_of!(SocketStats, tx_os_reasons) == 1024);

impl SocketStats {
    /// Records that the socket runs in user space.
    pub fn set_offloaded(&self) {
        self.rule.set(0);
        self.offloaded.publish(true);
        self.reason.publish(0);
    }

    /// Records that the kernel serves the socket and why: a reason, and the number of the rule
    /// behind it or 0. Both are stored first, so a reader never sees "not offloaded" with a reason
    /// of the past.
    pub fn set_not_offloaded(&self, reason: u32, rule: u32) {
        self.rule.set(rule);
        self.reason.publish(reason);
        self.offloaded.publish(false);
    }
}
