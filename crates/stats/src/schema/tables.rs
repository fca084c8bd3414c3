//! The entries of each section: names, types, units and meanings of their fields.

use std::mem::offset_of;

use crate::field::{
    Counter, Descriptor, Distribution, Endpoint, Field, Flag, Gauge, Histogram, LargeNumber,
    Number, Peak, ReasonCounters, ReasonCounts, Remark, Text, Value,
};
use crate::layout::CACHE_LINE_BYTES;
use crate::mapping::EntryView;
use crate::schema::{Entry, FieldInfo, Head, LineStart, Row};

type Text16 = Text<2>;
type Text64 = Text<8>;
type Text128 = Text<16>;
type Text192 = Text<24>;
type Text256 = Text<32>;
type Remark120 = Remark<15>;

macro_rules! entry {
    (
        $(#[$stats_doc:meta])* $stats:ident,
        $(#[$snapshot_doc:meta])* $snapshot:ident by $index:ident,
        { $( $name:ident: $type:ident, $unit:literal, $help:literal; )* }
        $( $line:ident { $(
            $line_name:ident: $line_type:ident, $line_unit:literal, $line_help:literal;
        )* } )*
    ) => {
        $(#[$stats_doc])*
        #[derive(Debug, Default)]
        #[repr(C, align(64))]
        pub struct $stats {
            head: Head,
            $( #[doc = $help] pub $name: $type, )*
            $( $line: LineStart, $( #[doc = $line_help] pub $line_name: $line_type, )* )*
        }

        impl $stats {
            /// Every field in the order of the file.
            pub const FIELDS: &'static [FieldInfo] = &[
                $( FieldInfo {
                    name: stringify!($name),
                    kind: <$type as Field>::KIND,
                    type_name: stringify!($type),
                    unit: $unit,
                    help: $help,
                    offset: offset_of!(Self, $name),
                }, )*
                $( $( FieldInfo {
                    name: stringify!($line_name),
                    kind: <$line_type as Field>::KIND,
                    type_name: stringify!($line_type),
                    unit: $line_unit,
                    help: $line_help,
                    offset: offset_of!(Self, $line_name),
                }, )* )*
            ];
        }

        const _: () = assert!(offset_of!($stats, head) == 0);
        const _: () = assert!(align_of::<$stats>() == CACHE_LINE_BYTES);
        const _: () = assert!(size_of::<$stats>() % CACHE_LINE_BYTES == 0);
        $( const _: () = assert!(offset_of!($stats, $line) % CACHE_LINE_BYTES == 0); )*

        impl Entry for $stats {
            type Snapshot = $snapshot;

            fn head(&self) -> &Head {
                &self.head
            }

            fn reset(&self) {
                $( self.$name.reset(); )*
                $( $( self.$line_name.reset(); )* )*
            }

            fn copy_from(&self, other: &Self) {
                $( self.$name.copy_from(&other.$name); )*
                $( $( self.$line_name.copy_from(&other.$line_name); )* )*
            }

            fn zero(&self) {
                $( self.$name.zero(); )*
                $( $( self.$line_name.zero(); )* )*
            }

            fn read(entry: &EntryView<'_>, index: u32, generation: u64) -> $snapshot {
                $snapshot {
                    $index: index,
                    generation,
                    $( $name: <$type as Field>::read(entry, offset_of!($stats, $name)), )*
                    $( $( $line_name:
                        <$line_type as Field>::read(entry, offset_of!($stats, $line_name)), )* )*
                }
            }
        }

        $(#[$snapshot_doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(default))]
        pub struct $snapshot {
            /// Place of the entry in its section.
            pub $index: u32,
            /// Tells the users of one place apart; 0 for a place that was never taken.
            pub generation: u64,
            $( #[doc = $help] pub $name: snapshot_type!($type), )*
            $( $( #[doc = $line_help] pub $line_name: snapshot_type!($line_type), )* )*
        }

        impl Row for $snapshot {
            const FIELDS: &'static [FieldInfo] = $stats::FIELDS;

            fn place(&self) -> u32 {
                self.$index
            }

            fn generation(&self) -> u64 {
                self.generation
            }

            fn values(&self) -> Vec<Value> {
                vec![
                    $( <$type as Field>::shown(&self.$name), )*
                    $( $( <$line_type as Field>::shown(&self.$line_name), )* )*
                ]
            }

            fn since(&self, earlier: &Self) -> Self {
                Self {
                    $index: self.$index,
                    generation: self.generation,
                    $( $name: <$type as Field>::since(&self.$name, &earlier.$name), )*
                    $( $( $line_name:
                        <$line_type as Field>::since(&self.$line_name, &earlier.$line_name), )* )*
                }
            }
        }
    };
}

macro_rules! snapshot_type {
    (Counter) => { u64 };
    (Gauge) => { u64 };
    (Peak) => { u64 };
    (Number) => { u32 };
    (LargeNumber) => { u64 };
    (Flag) => { bool };
    (Descriptor) => { i32 };
    (Endpoint) => { Option<std::net::SocketAddr> };
    (Text16) => { String };
    (Text64) => { String };
    (Text128) => { String };
    (Text192) => { String };
    (Text256) => { String };
    (Remark120) => { String };
    (ReasonCounters) => { ReasonCounts };
    (Histogram) => { Distribution };
}

entry! {
    /// What one socket is and what it did.
    ///
    /// Receive and send counters lie on different cache lines, so a receiving and a sending thread do
    /// not slow each other down.
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
    /// What one ring (a network interface's queues as one user space path) is and what it did.
    RingStats,
    /// A [`RingStats`] at one moment.
    RingSnapshot by slot,
    {
        ifname: Text16, "", "name of the interface";
        mode: Text16, "", "how packets are exchanged with the device, for example xdp native";
        ifindex: Number, "", "index of the interface";
        queues: Number, "queues", "device queues that the ring serves";
    }
    rx {
        rx_packets: Counter, "packets", "packets received";
        rx_bytes: Counter, "bytes", "bytes received, with all headers";
        rx_dropped_no_socket: Counter, "packets", "packets dropped because no socket wants them";
        rx_dropped_malformed: Counter, "packets", "packets dropped because a header is not valid";
        rx_dropped_checksum: Counter, "packets", "packets dropped because a checksum is wrong";
        rx_dropped_no_frame: Counter, "packets", "packets dropped because no buffer was free";
        rx_wakeups: Counter, "wake-ups", "times that a sleeper was woken by the device";
    }
    tx {
        tx_packets: Counter, "packets", "packets sent";
        tx_bytes: Counter, "bytes", "bytes sent, with all headers";
        tx_kicks: Counter, "calls", "system calls that told the device to send";
        tx_kick_retries: Counter, "calls", "kicks repeated because the kernel was busy";
        tx_full: Counter, "packets", "packets refused because the transmit queue was full";
    }
}

entry! {
    /// The state of one buffer pool.
    PoolStats,
    /// A [`PoolStats`] at one moment.
    PoolSnapshot by slot,
    {
        frames: LargeNumber, "frames", "buffers in the pool";
        frame_bytes: LargeNumber, "bytes", "size of a buffer";
        free: Gauge, "frames", "buffers that nobody holds";
        exhausted: Counter, "requests", "requests for a buffer that found none";
    }
}

entry! {
    /// How often sockets were left to the kernel for one reason.
    ReasonStats,
    /// A [`ReasonStats`] at one moment.
    ReasonSnapshot by code,
    {
        name: Text64, "", "the reason in words";
        count: Counter, "sockets", "sockets that were left to the kernel for this reason";
    }
    texts {
        advice: Text192, "", "what to change to have such sockets accelerated; may be empty";
    }
}

entry! {
    /// The value of one parameter of the library.
    SettingStats,
    /// A [`SettingStats`].
    SettingSnapshot by place,
    {
        origin: Text16, "", "what gave it the value: default, preset, environment or adjusted";
    }
    texts {
        value: Text128, "", "its value, as one would write it into the environment";
        name: Text64, "", "name of the variable";
    }
}

entry! {
    /// One rule by which sockets are left to the kernel or not.
    RuleStats,
    /// A [`RuleStats`].
    RuleSnapshot by place,
    {}
    texts {
        origin: Text128, "", "where it stands, for example /etc/libvma.conf:12";
        rule: Text128, "", "the rule in the words of libvma.conf";
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
    /// Something that a reader should know about an interface or the process, in words.
    NoteStats,
    /// A [`NoteStats`].
    NoteSnapshot by slot,
    {
        subject: Text16, "", "name of the interface; empty for the whole process";
        topic: Text16, "", "what it is about, in a word: a subject has one note for each topic";
    }
    texts {
        text: Text256, "", "the note";
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
    /// What the calls of one kind did: `poll(2)`, `select(2)`, or `epoll_wait(2)` on one set.
    MultiplexerStats,
    /// A [`MultiplexerStats`] at one moment.
    MultiplexerSnapshot by slot,
    {
        kind: Text16, "", "poll, select or epoll";
        epfd: Descriptor, "", "file descriptor of the epoll set; -1 for poll and select";
        thread: Number, "", "thread that called last (tid)";
        polling_cpu: Gauge, "percent", "share of a CPU spent polling (VMA_CPU_USAGE_STATS)";
    }
    calls {
        poll_hit: Counter, "calls", "calls that found something while they polled";
        poll_miss: Counter, "calls", "calls that polled in vain and went to sleep";
        timeouts: Counter, "calls", "calls that ended without a result";
        errors: Counter, "calls", "calls that failed";
        rx_ready: Counter, "descriptors", "ready descriptors found in user space";
        rx_os_ready: Counter, "descriptors", "ready descriptors that the kernel reported";
    }
}

entry! {
    /// A receive queue of a device, as the original's completion queues (CQ).
    QueueStats,
    /// A [`QueueStats`] at one moment.
    QueueSnapshot by slot,
    {
        ifname: Text16, "", "name of the interface";
        ifindex: Number, "", "index of the interface";
        queue: Number, "", "number of the queue";
        buffers: Gauge, "frames", "empty buffers that the device has";
    }
    rx {
        rx_dropped: Counter, "packets", "packets that the device dropped for lack of a buffer or of room";
        rx_waiting: Gauge, "packets", "packets drained and not yet delivered";
        rx_drained_max: Peak, "packets", "the most packets drained at once";
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

entry! {
    /// Something that happened, outside of the data path.
    EventStats,
    /// An [`EventStats`].
    EventSnapshot by slot,
    {
        order: LargeNumber, "", "how many events there were up to this one";
        time_nsec: LargeNumber, "nanoseconds", "when, since 1970";
        kind: Text16, "", "offload, kernel, device, control or error";
        subject: Text16, "", "what it happened to: fd 7, or the name of an interface";
    }
    texts {
        text: Text128, "", "what happened";
    }
}

// The file format of this major version: sizes, and the first field of every cache line.
const _: () = assert!(size_of::<SocketStats>() == 40 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<RingStats>() == 3 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<PoolStats>() == CACHE_LINE_BYTES);
const _: () = assert!(size_of::<ReasonStats>() == 5 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<SettingStats>() == 4 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<RuleStats>() == 5 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<KernelSocketStats>() == CACHE_LINE_BYTES);
const _: () = assert!(size_of::<NoteStats>() == 5 * CACHE_LINE_BYTES);
const _: () = assert!(offset_of!(SocketStats, fd) == 8);
const _: () = assert!(offset_of!(SocketStats, local) == 64);
const _: () = assert!(offset_of!(SocketStats, peer) == 128);
const _: () = assert!(offset_of!(SocketStats, rx_packets) == 192);
const _: () = assert!(offset_of!(SocketStats, rx_dropped_bytes) == 256);
const _: () = assert!(offset_of!(SocketStats, tx_packets) == 320);
const _: () = assert!(offset_of!(SocketStats, detail) == 384);
const _: () = assert!(offset_of!(SocketStats, rx_os_reasons) == 512);
const _: () = assert!(offset_of!(SocketStats, tx_os_reasons) == 1024);
const _: () = assert!(offset_of!(RingStats, rx_packets) == 64);
const _: () = assert!(offset_of!(RingStats, tx_packets) == 128);
