//! Interfaces: their rings, receive queues and buffers.

use std::mem::offset_of;

use crate::cache_line::CACHE_LINE_BYTES;
use crate::counter::{Counter, Gauge, Peak};
use crate::field::scalar::{LargeNumber, Number};
use crate::schema::entry::{Text16, entry};

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
        tx_whole: Counter, "packets", "packets given to the device whole, to be cut into segments; tx_packets counts the segments";
        tx_whole_refused: Counter, "packets", "packets that it refused for good: segments are sent one by one from then on";
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
        exempt: Gauge, "connections", "connections that were given to the kernel while their listener stays past it, and whose segments the XDP program leaves there";
        exempt_refused: Counter, "connections", "the same for which the program's map had no room, or could not be changed: their segments take the way through the library";
    }
}

// The file format of this major version: sizes, and the first field of every cache line.
const _: () = assert!(size_of::<RingStats>() == 3 * CACHE_LINE_BYTES);
const _: () = assert!(size_of::<PoolStats>() == CACHE_LINE_BYTES);
const _: () = assert!(offset_of!(RingStats, rx_packets) == 64);
const _: () = assert!(offset_of!(RingStats, tx_packets) == 128);
