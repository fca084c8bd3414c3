//! Numbers of `infiniband/verbs.h`.

use libc::c_int;

/// A queue pair that sends and receives whole Ethernet frames.
pub const IBV_QPT_RAW_PACKET: u32 = 8;

pub const IBV_QPS_RESET: u32 = 0;
pub const IBV_QPS_INIT: u32 = 1;
pub const IBV_QPS_RTR: u32 = 2;
pub const IBV_QPS_RTS: u32 = 3;
pub const IBV_QPS_ERR: u32 = 6;

pub const IBV_QP_STATE: c_int = 1;
pub const IBV_QP_PORT: c_int = 1 << 5;

/// The device writes to the memory.
pub const IBV_ACCESS_LOCAL_WRITE: c_int = 1;

pub const IBV_WR_SEND: u32 = 2;
/// The request has a completion.
pub const IBV_SEND_SIGNALED: u32 = 1 << 1;
/// The data are copied before the call returns.
pub const IBV_SEND_INLINE: u32 = 1 << 3;
/// The device computes the checksums of IP and of what it carries.
pub const IBV_SEND_IP_CSUM: u32 = 1 << 4;

pub const IBV_WC_SUCCESS: u32 = 0;
pub const IBV_WC_LOC_LEN_ERR: u32 = 1;
pub const IBV_WC_LOC_PROT_ERR: u32 = 4;
pub const IBV_WC_WR_FLUSH_ERR: u32 = 5;
pub const IBV_WC_SEND: u32 = 0;
/// A bit, of every completion of receiving.
pub const IBV_WC_RECV: u32 = 1 << 7;
/// The checksums of IP and of what it carries are right.
pub const IBV_WC_IP_CSUM_OK: u32 = 1 << 2;

/// The device checks and computes checksums for queue pairs of raw packets.
pub const IBV_DEVICE_RAW_IP_CSUM: u32 = 1 << 26;
/// The device takes flow rules.
pub const IBV_DEVICE_MANAGED_FLOW_STEERING: u32 = 1 << 29;

pub const IBV_FLOW_ATTR_NORMAL: u32 = 0;
pub const IBV_FLOW_SPEC_ETH: u32 = 0x20;
pub const IBV_FLOW_SPEC_IPV4: u32 = 0x30;
pub const IBV_FLOW_SPEC_IPV6: u32 = 0x31;
pub const IBV_FLOW_SPEC_TCP: u32 = 0x40;
pub const IBV_FLOW_SPEC_UDP: u32 = 0x41;

pub const IBV_EVENT_CQ_ERR: u32 = 0;
pub const IBV_EVENT_QP_FATAL: u32 = 1;
pub const IBV_EVENT_DEVICE_FATAL: u32 = 8;
pub const IBV_EVENT_PORT_ACTIVE: u32 = 9;
pub const IBV_EVENT_PORT_ERR: u32 = 10;

/// What of a device is asked for: its clock.
pub const IBV_VALUES_MASK_RAW_CLOCK: u32 = 1;

/// Bytes of a name in `/sys/class`.
pub const IBV_SYSFS_NAME_MAX: usize = 64;
/// Bytes of a path in `/sys`.
pub const IBV_SYSFS_PATH_MAX: usize = 256;
