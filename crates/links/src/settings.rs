//! What the configuration says to the engine.

use std::time::Duration;

use dev_core::{Allocate, MemoryKind, ThreadMode};
use vma_config::{DeviceTimes, ExceptionHandling};

pub use crate::moderation::Moderation;
use crate::rings::RingPolicy;

/// What the configuration says to the engine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// `VMA_OFFLOADED_SOCKETS`
    pub offloaded_sockets: bool,
    /// `VMA_SOCKETXTREME`: packets and events are taken by rings.
    pub socketxtreme: bool,
    /// `VMA_EXCEPTION_HANDLING`
    pub exceptions: ExceptionHandling,
    /// `VMA_THREAD_MODE`
    pub thread_mode: ThreadMode,
    /// `VMA_RX_POLL`: polls of a blocking receive call before it sleeps; negative means without
    /// end.
    pub rx_poll: i32,
    /// `VMA_RX_BYTES_MIN`: what a queue of datagrams holds at least, however small the program has
    /// asked it to be.
    pub receive_bytes_min: usize,
    /// `VMA_TX_NONBLOCKED_EAGAINS`: a send call that is not to wait fails when the ring is full,
    /// instead of being the kernel's.
    pub full_ring_fails: bool,
    /// `VMA_RX_POLL_YIELD`: polls of a blocking receive call between two offers of the CPU to
    /// others; 0 for none.
    pub rx_poll_yield: u32,
    /// `VMA_RX_CQ_DRAIN_RATE_NSEC`: how long a socket's receive calls that find data waiting leave
    /// the ring alone; 0: until there are none.
    pub rx_drain_nsec: u64,
    /// `VMA_TRIGGER_DUMMY_SEND_GETSOCKNAME`: `getsockname(2)` of a connected UDP socket does all of
    /// a send but the sending.
    pub getsockname_dummy_send: bool,
    /// `VMA_SHM`: connections within the host go through memory that both processes share.
    pub shares_memory: bool,
    /// `VMA_POLL_SHARED_CPU`: poll on a CPU that other threads need, too.
    pub poll_shared_cpu: bool,
    /// `VMA_RX_UDP_POLL_OS_RATIO`
    pub rx_udp_poll_os_ratio: u32,
    /// `VMA_SELECT_POLL` in microseconds; negative means without end.
    pub select_poll_usec: i32,
    /// `VMA_SELECT_POLL_OS_RATIO`
    pub select_poll_os_ratio: u32,
    /// `VMA_SELECT_SKIP_OS`
    pub select_skip_os: u32,
    /// `VMA_CQ_POLL_BATCH_MAX`: frames taken from a ring at once.
    pub poll_batch_max: usize,
    /// `VMA_RING_ALLOCATION_LOGIC_TX`, `VMA_RING_MIGRATION_RATIO_TX`,
    /// `VMA_RING_LIMIT_PER_INTERFACE`
    pub rings_tx: RingPolicy,
    /// `VMA_RING_ALLOCATION_LOGIC_RX`, `VMA_RING_MIGRATION_RATIO_RX`,
    /// `VMA_RING_LIMIT_PER_INTERFACE`
    pub rings_rx: RingPolicy,
    /// How long a thread that sleeps leaves the packets of a stream alone.
    pub moderation: Moderation,
    /// Frames of the pool.
    pub pool_frames: u32,
    /// `VMA_MEM_ALLOC_TYPE`
    pub memory: MemoryKind,
    /// The user has set it.
    pub memory_is_asked_for: bool,
    /// Where the program has its frames, if it has said so (`vma_api_t::ioctl`): its function gives
    /// memory that is nobody else's, and stays.
    pub program_memory: Option<Allocate>,
    /// `VMA_CPU_USAGE_STATS`: calls that wait measure how long they poll.
    pub measures_polling: bool,
    /// `VMA_PROGRESS_ENGINE_INTERVAL`: how often interfaces that nobody polls are looked at; zero:
    /// never.
    pub progress_interval: Duration,
    /// `VMA_PROGRESS_ENGINE_WCE_MAX`: packets taken in at a time then.
    pub progress_packets_max: usize,
    /// `VMA_INTERNAL_THREAD_ARM_CQ`: the internal thread takes in every packet.
    pub internal_thread_receives: bool,
    /// `VMA_OPEN_WAIT_MSEC`: how long a call waits at most for an interface that is being opened.
    pub open_wait: Duration,
    /// `VMA_WAIT_AFTER_JOIN_MSEC`: how long a call that joins a multicast group takes at least.
    pub wait_after_join: Duration,
    /// `VMA_HW_TS_CONVERSION`: what sockets are told of when a device has received a packet, if
    /// they ask for that (`SO_TIMESTAMPING`).
    pub device_times: DeviceTimes,
    /// `VMA_TX_MC_LOOPBACK`: datagram sockets begin with `IP_MULTICAST_LOOP` on, as they do without
    /// the library.
    pub tx_mc_loopback: bool,
    /// `VMA_TCP_NODELAY`: streams begin with the option.
    pub tcp_nodelay: bool,
    /// `VMA_MTU`: the largest packet of streams in bytes, as far as interfaces have room for it; 0
    /// for theirs.
    pub tcp_mtu: u32,
    /// `VMA_MSS`: the largest segment of streams in octets, where the program says nothing else; 0
    /// for the path's.
    pub tcp_mss: u32,
    /// `VMA_TCP_QUICKACK`: no stream delays acknowledgements.
    pub tcp_quickack: bool,
    /// `VMA_TCP_TIMESTAMP_OPTION`: whether streams have timestamps. `None`: as the system's.
    pub tcp_timestamps: Option<bool>,
    /// `VMA_RX_POLL_ON_TX_TCP`: send calls of streams receive what has come.
    pub tcp_sends_poll: bool,
    /// `VMA_TCP_MAX_SYN_RATE`: SYNs a second that a listener answers; 0 for all.
    pub tcp_max_syn_rate: u32,
    /// `VMA_TCP_CC_ALGO`: the congestion control of streams for which the program has chosen none.
    /// `None`: the system's.
    pub tcp_cc_algo: Option<u32>,
}
