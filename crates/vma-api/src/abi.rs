//! What `mellanox/vma_extra.h` declares, as a 64-bit C compiler lays it out. Names and numbers are
//! VMA's; programs that were compiled against its header rely on them.

use libc::{c_int, c_void, iovec, pthread_t, size_t, sockaddr, sockaddr_in, socklen_t, timespec};

/// Option of `getsockopt(2)`, level `SOL_SOCKET`, on any descriptor: a pointer to [`Table`].
pub const SO_VMA_GET_API: c_int = 2800;
/// What completions of a socket carry (`SocketXtreme`).
pub const SO_VMA_USER_DATA: c_int = 2801;
/// [`RingAllocLogic`]
pub const SO_VMA_RING_ALLOC_LOGIC: c_int = 2810;
/// An `iovec` of the program's memory for a ring.
pub const SO_VMA_RING_USER_MEMORY: c_int = 2811;
/// A number that packets of a flow carry.
pub const SO_VMA_FLOW_TAG: c_int = 2820;
/// Detaches a socket from what it receives.
pub const SO_VMA_SHUTDOWN_RX: c_int = 2821;

/// Given to [`Table::recvfrom_zcopy`]: packets instead of copies.
pub const MSG_VMA_ZCOPY_FORCE: c_int = 0x0100_0000;
/// Said by it: the buffer holds a [`Packets`].
pub const MSG_VMA_ZCOPY: c_int = 0x0004_0000;
/// Given to sending calls: all is done but sending.
pub const VMA_SND_FLAGS_DUMMY: c_int = 0x400;

/// What a callback wants to become of a packet: it is gone.
pub const VMA_PACKET_DROP: c_int = 0;
/// It is received as usual.
pub const VMA_PACKET_RECV: c_int = 1;
/// It is the program's until [`Table::free_packets`].
pub const VMA_PACKET_HOLD: c_int = 2;

/// Bits of [`Table::vma_extra_supported_mask`].
pub mod supported {
    #![allow(missing_docs, reason = "each is named like the function that it is of")]
    pub const REGISTER_RECV_CALLBACK: u64 = 1;
    pub const RECVFROM_ZCOPY: u64 = 1 << 1;
    pub const FREE_PACKETS: u64 = 1 << 2;
    pub const ADD_CONF_RULE: u64 = 1 << 3;
    pub const THREAD_OFFLOAD: u64 = 1 << 4;
    pub const DUMP_FD_STATS: u64 = 1 << 5;
    pub const SOCKETXTREME_POLL: u64 = 1 << 6;
    pub const SOCKETXTREME_FREE_VMA_PACKETS: u64 = 1 << 7;
    pub const SOCKETXTREME_REF_VMA_BUFF: u64 = 1 << 8;
    pub const SOCKETXTREME_FREE_VMA_BUFF: u64 = 1 << 9;
    pub const GET_SOCKET_RINGS_NUM: u64 = 1 << 10;
    pub const GET_SOCKET_RINGS_FDS: u64 = 1 << 11;
    pub const GET_SOCKET_TX_RING_FD: u64 = 1 << 12;
    pub const GET_SOCKET_NETWORK_HEADER: u64 = 1 << 13;
    pub const GET_RING_DIRECT_DESCRIPTORS: u64 = 1 << 14;
    pub const ADD_RING_PROFILE: u64 = 1 << 16;
    pub const REGISTER_MEMORY_ON_RING: u64 = 1 << 17;
    pub const DEREGISTER_MEMORY_ON_RING: u64 = 1 << 18;
    pub const MODIFY_RING: u64 = 1 << 20;
    pub const IOCTL: u64 = 1 << 21;
}

/// `vma_recv_callback_t`: returns one of `VMA_PACKET_*`.
pub type RecvCallback = unsafe extern "C" fn(
    fd: c_int,
    sz_iov: size_t,
    iov: *mut iovec,
    vma_info: *mut Info,
    context: *mut c_void,
) -> c_int;

/// `struct vma_api_t`: the functions, in the order of the ABI. They return -1 and set `errno` where
/// nothing else is said.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Table {
    /// Has a function see each packet of a socket before it is queued; `None` ends that.
    pub register_recv_callback: unsafe extern "C" fn(
        s: c_int,
        callback: Option<RecvCallback>,
        context: *mut c_void,
    ) -> c_int,
    /// Receives without copying.
    pub recvfrom_zcopy: unsafe extern "C" fn(
        s: c_int,
        buf: *mut c_void,
        len: size_t,
        flags: *mut c_int,
        from: *mut sockaddr,
        fromlen: *mut socklen_t,
    ) -> c_int,
    /// Gives packets back.
    pub free_packets: unsafe extern "C" fn(s: c_int, packets: *mut Packet, count: size_t) -> c_int,
    /// Puts a rule of `libvma.conf` in front of all others.
    pub add_conf_rule: unsafe extern "C" fn(config_line: *const libc::c_char) -> c_int,
    /// Whether sockets that a thread makes from here on are accelerated.
    pub thread_offload: unsafe extern "C" fn(offload: c_int, tid: pthread_t) -> c_int,
    /// Takes completions of a ring.
    pub socketxtreme_poll: unsafe extern "C" fn(
        fd: c_int,
        completions: *mut Completion,
        ncompletions: libc::c_uint,
        flags: c_int,
    ) -> c_int,
    /// How many rings a socket receives by.
    pub get_socket_rings_num: unsafe extern "C" fn(fd: c_int) -> c_int,
    /// Their descriptors.
    pub get_socket_rings_fds:
        unsafe extern "C" fn(fd: c_int, ring_fds: *mut c_int, ring_fds_sz: c_int) -> c_int,
    /// That of the ring by which a socket sends to an address.
    pub get_socket_tx_ring_fd:
        unsafe extern "C" fn(sock_fd: c_int, to: *mut sockaddr, tolen: socklen_t) -> c_int,
    /// Gives back what completions have brought.
    pub socketxtreme_free_vma_packets:
        unsafe extern "C" fn(packets: *mut PacketDesc, num: c_int) -> c_int,
    /// Keeps a buffer for one more user.
    pub socketxtreme_ref_vma_buff: unsafe extern "C" fn(buff: *mut Buff) -> c_int,
    /// One user less.
    pub socketxtreme_free_vma_buff: unsafe extern "C" fn(buff: *mut Buff) -> c_int,
    /// Writes the counters of a descriptor, or of all (0), into the log.
    pub dump_fd_stats: unsafe extern "C" fn(fd: c_int, log_level: c_int) -> c_int,
    /// Describes a kind of rings.
    pub vma_add_ring_profile:
        unsafe extern "C" fn(profile: *mut RingTypeAttr, key: *mut c_int) -> c_int,
    /// The headers of what a connected socket sends.
    pub get_socket_network_header:
        unsafe extern "C" fn(fd: c_int, ptr: *mut c_void, len: *mut u16) -> c_int,
    /// Queues of the hardware.
    pub get_ring_direct_descriptors: unsafe extern "C" fn(fd: c_int, data: *mut c_void) -> c_int,
    /// Registers memory of the program's.
    pub register_memory_on_ring:
        unsafe extern "C" fn(fd: c_int, addr: *mut c_void, length: size_t, key: *mut u32) -> c_int,
    /// Takes that back.
    pub deregister_memory_on_ring:
        unsafe extern "C" fn(fd: c_int, addr: *mut c_void, length: size_t) -> c_int,
    /// Changes a ring.
    pub vma_modify_ring: unsafe extern "C" fn(attr: *mut ModifyRingAttr) -> c_int,
    /// Which of these do something: bits of [`supported`].
    pub vma_extra_supported_mask: u64,
    /// Settings of the library, as control messages.
    pub ioctl: unsafe extern "C" fn(cmsg_hdr: *mut c_void, cmsg_len: size_t) -> c_int,
}

/// `struct vma_buff_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Buff {
    /// As in the header.
    pub next: *mut Self,
    /// The data.
    pub payload: *mut c_void,
    /// As in the header.
    pub len: u16,
}

/// `struct vma_packet_desc_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PacketDesc {
    /// As in the header.
    pub num_bufs: size_t,
    /// As in the header.
    pub total_len: u16,
    /// As in the header.
    pub buff_lst: *mut Buff,
    /// As in the header.
    pub hw_timestamp: timespec,
}

/// `struct vma_completion_t`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Completion {
    /// As in the header.
    pub packet: PacketDesc,
    /// Of epoll, and `VMA_SOCKETXTREME_*`.
    pub events: u64,
    /// As in the header.
    pub user_data: u64,
    /// As in the header.
    pub src: sockaddr_in,
    /// As in the header.
    pub listen_fd: c_int,
}

/// `struct vma_packet_t`, with `sz_iov` entries of `struct iovec` behind it.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct Packet {
    /// What [`Table::free_packets`] wants to know.
    pub packet_id: *mut c_void,
    /// How many entries follow.
    pub sz_iov: size_t,
}

/// `struct vma_packets_t`, with `n_packet_num` packets behind it, each as long as its entries make
/// it.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct Packets {
    /// How many packets follow.
    pub n_packet_num: size_t,
}

/// `struct vma_info_t`: what a callback is told of a packet.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed)]
pub struct Info {
    /// Size of this structure.
    pub struct_sz: size_t,
    /// What [`Table::free_packets`] wants to know of one that is held.
    pub packet_id: *mut c_void,
    /// As in the header.
    pub src: *mut sockaddr_in,
    /// As in the header.
    pub dst: *mut sockaddr_in,
    /// As in the header.
    pub payload_sz: size_t,
    /// As in the header.
    pub socket_ready_queue_pkt_count: u32,
    /// As in the header.
    pub socket_ready_queue_byte_count: u32,
    /// As in the header.
    pub hw_timestamp: timespec,
    /// As in the header.
    pub sw_timestamp: timespec,
}

/// `struct vma_rate_limit_t`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RateLimit {
    /// Kilobits a second.
    pub rate: u32,
    /// Bytes.
    pub max_burst_sz: u32,
    /// Bytes.
    pub typical_pkt_sz: u16,
}

/// `struct vma_ring_alloc_logic_attr`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RingAllocLogic {
    /// Which of the fields count.
    pub comp_mask: u32,
    /// `ring_logic_t`
    pub ring_alloc_logic: u32,
    /// As in the header.
    pub ring_profile_key: u32,
    /// As in the header.
    pub user_id: u32,
    /// Bit 0: for receiving, bit 1: for sending.
    pub directions: u32,
}

/// `struct vma_modify_ring_attr`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ModifyRingAttr {
    /// As in the header.
    pub comp_bit_mask: u32,
    /// As in the header.
    pub ring_fd: c_int,
    /// As in the header.
    pub cq_moderation_count: u32,
    /// As in the header.
    pub cq_moderation_period_usec: u32,
}

/// `struct vma_ring_type_attr`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RingTypeAttr {
    /// As in the header.
    pub comp_mask: u32,
    /// As in the header.
    pub ring_type: u32,
    /// Of either kind.
    pub ring_comp_mask: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(size_of::<Table>() == 168);
    assert!(std::mem::offset_of!(Table, dump_fd_stats) == 96);
    assert!(std::mem::offset_of!(Table, vma_extra_supported_mask) == 152);
    assert!(size_of::<Buff>() == 24 && size_of::<PacketDesc>() == 40);
    assert!(size_of::<Completion>() == 80 && std::mem::offset_of!(Completion, src) == 56);
    assert!(size_of::<Packet>() == 16 && size_of::<Packets>() == 8);
    assert!(size_of::<Info>() == 80 && std::mem::offset_of!(Info, hw_timestamp) == 48);
    assert!(size_of::<RateLimit>() == 12 && size_of::<RingAllocLogic>() == 20);
    assert!(size_of::<ModifyRingAttr>() == 16 && size_of::<RingTypeAttr>() == 12);
};
