//! The entries of each section, declared once.
//!
//! The `entry!` tables below give, for every field, its name, type, unit and meaning. The first group
//! shares a cache line with the entry's generation, every further group starts a line of its own. From a table
//! follow the shared `repr(C)` structure, the `FIELDS` list for columns and documents, the snapshot
//! that a reader returns, and the difference of two snapshots.
//!
//! Order and types are the file format: append to the end of an entry and raise
//! [`LAYOUT_MINOR`](crate::LAYOUT_MINOR); anything else raises [`LAYOUT_MAJOR`](crate::LAYOUT_MAJOR).

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::field::{
    Counter, Descriptor, Endpoint, Field, Flag, Gauge, LargeNumber, Number, ReasonCounters,
    ReasonCounts, Remark, Text,
};
use crate::layout::CACHE_LINE_BYTES;
use crate::mapping::EntryView;

/// [`SocketStats::protocol`] of a TCP socket (IANA protocol number).
pub const PROTOCOL_TCP: u32 = 6;
/// [`SocketStats::protocol`] of a UDP socket (IANA protocol number).
pub const PROTOCOL_UDP: u32 = 17;

/// One field of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    pub name: &'static str,
    pub kind: FieldKind,
    /// Plural noun, or empty where the value has none.
    pub unit: &'static str,
    pub help: &'static str,
    /// From the start of the entry, bytes.
    pub offset: usize,
}

/// How a field changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Says what the entry is about.
    Identity,
    /// Only grows: readers show differences.
    Counter,
    /// Rises and falls: readers show the present value.
    Gauge,
}

/// What the segment's code needs of every entry.
pub(crate) trait Entry: Default {
    type Snapshot;

    fn head(&self) -> &Head;

    /// All fields as in a fresh entry; the generation stays.
    fn reset(&self);

    /// Takes over all fields of another entry; the generation stays.
    fn copy_from(&self, other: &Self);

    /// Reads the fields once; the caller checks the generation around it.
    fn read(entry: &EntryView<'_>, index: u32, generation: u64) -> Self::Snapshot;
}

/// First word of every entry: odd while the entry is in use, even while it is free, one more at each
/// change, so a reader that sees the same odd value before and after has read one user's data.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Head {
    generation: AtomicU64,
}

impl Head {
    /// Whether the entry is in use.
    pub(crate) fn is_open(&self) -> bool {
        !self.generation.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Makes a reset entry visible.
    pub(crate) fn open(&self) {
        // Even, unless the file was damaged.
        let next = self.generation.load(Ordering::Relaxed).wrapping_add(1) | 1;
        self.generation.store(next, Ordering::Release);
    }

    /// Takes the entry away from readers, before the next user resets it.
    pub(crate) fn close(&self) {
        // Odd, unless the file was damaged.
        let next = (self.generation.load(Ordering::Relaxed) | 1).wrapping_add(1);
        self.generation.store(next, Ordering::Release);
        // Everything that the next user stores comes after the even generation.
        fence(Ordering::Release);
    }
}

/// Moves the field that follows to a new cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct LineStart;

type Text16 = Text<2>;
type Text64 = Text<8>;
type Text128 = Text<16>;
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
                    unit: $unit,
                    help: $help,
                    offset: offset_of!(Self, $name),
                }, )*
                $( $( FieldInfo {
                    name: stringify!($line_name),
                    kind: <$line_type as Field>::KIND,
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
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        pub struct $snapshot {
            /// Place of the entry in its section.
            pub $index: u32,
            /// Tells the users of one place apart; 0 for a place that was never taken.
            pub generation: u64,
            $( #[doc = $help] pub $name: snapshot_type!($type), )*
            $( $( #[doc = $line_help] pub $line_name: snapshot_type!($line_type), )* )*
        }

        impl $snapshot {
            /// The increase of every counter since `earlier`, a snapshot of the same place and
            /// generation; identity and gauges as they are now.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
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
    (Number) => { u32 };
    (LargeNumber) => { u64 };
    (Flag) => { bool };
    (Descriptor) => { i32 };
    (Endpoint) => { Option<std::net::SocketAddr> };
    (Text16) => { String };
    (Text64) => { String };
    (Text128) => { String };
    (Text256) => { String };
    (Remark120) => { String };
    (ReasonCounters) => { ReasonCounts };
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
        rx_queue_packets_max: Gauge, "packets", "the most packets that ever waited to be read";
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

// The file format of this major version: sizes, and the first field of every cache line.
const _: () = assert!(size_of::<SocketStats>() == 24 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<RingStats>() == 3 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<PoolStats>() == CACHE_LINE_BYTES);
const _: () = assert!(size_of::<ReasonStats>() == 2 * CACHE_LINE_BYTES);
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

impl SocketStats {
    /// Records that the socket runs in user space.
    pub fn set_offloaded(&self) {
        self.rule.set(0);
        self.offloaded.publish(true);
        self.reason.publish(0);
    }

    /// Records that the kernel serves the socket and why: a reason, and the number of the rule behind it or 0. Both
    /// are stored first, so a reader never sees "not offloaded" with a reason of the past.
    pub fn set_not_offloaded(&self, reason: u32, rule: u32) {
        self.rule.set(rule);
        self.reason.publish(reason);
        self.offloaded.publish(false);
    }
}

#[cfg(test)]
mod tests;
