//! Calls that wait for several descriptors.

use std::mem::offset_of;

use crate::cache_line::CACHE_LINE_BYTES;
use crate::counter::{Counter, Gauge};
use crate::field::scalar::{Descriptor, Number};
use crate::schema::entry::{Text16, entry};
use crate::shares::SHARES;

entry! {
    /// What the calls of one kind did: `poll(2)`, `select(2)`, or `epoll_wait(2)` on one set.
    MultiplexerStats,
    /// A [`MultiplexerStats`] at one moment.
    MultiplexerSnapshot by slot,
    {
        kind: Text16, "", "poll, select or epoll";
        epfd: Descriptor, "", "file descriptor of the epoll set; -1 for poll and select";
        thread: Number, "", "thread that was the last to begin to call (tid)";
        polling_cpu: Gauge, "percent", "share of a CPU spent polling (VMA_CPU_USAGE_STATS)";
    }
    + shares: CallShare {
        poll_hit: Counter, "calls", "calls that found something while they polled";
        poll_miss: Counter, "calls", "calls that polled in vain and went to sleep";
        timeouts: Counter, "calls", "calls that ended without a result";
        errors: Counter, "calls", "calls that failed";
        rx_ready: Counter, "descriptors", "ready descriptors found in user space";
        rx_os_ready: Counter, "descriptors", "ready descriptors that the kernel reported";
    }
}

// The file format of this major version: sizes, and the first field of every cache line.
const _: () = assert!(size_of::<MultiplexerStats>() == (1 + SHARES) * CACHE_LINE_BYTES);
const _: () = assert!(offset_of!(MultiplexerStats, shares) == 64);
