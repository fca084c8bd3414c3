//! Structures and numbers of `infiniband/mlx5dv.h`: queues of ConnectX cards as they lie in memory.
//! Fields that name a byte order are as the card reads them: big-endian.

use libc::{c_void, off_t};

use crate::structures::{ibv_cq, ibv_qp};

pub const MLX5DV_OBJ_QP: u64 = 1;
pub const MLX5DV_OBJ_CQ: u64 = 2;

/// Places in a queue pair's doorbell record.
pub const MLX5_RCV_DBR: usize = 0;
pub const MLX5_SND_DBR: usize = 1;
/// Places in a completion queue's: what was taken, and which event is asked for.
pub const MLX5_CQ_SET_CI: usize = 0;
pub const MLX5_CQ_ARM_DB: usize = 1;
/// Where in its page a completion queue is asked for an event, in bytes.
pub const MLX5_CQ_DOORBELL: usize = 0x20;
/// The next completion is to raise an event.
pub const MLX5_CQ_DB_REQ_NOT: u32 = 0;

/// Bytes of a block of a send queue: a request has one or more.
pub const MLX5_SEND_WQE_BB: usize = 64;
pub const MLX5_OPCODE_NOP: u8 = 0;
pub const MLX5_OPCODE_SEND: u8 = 0x0a;
/// The card cuts it into segments.
pub const MLX5_OPCODE_TSO: u8 = 0x0e;
/// The request has a completion.
pub const MLX5_WQE_CTRL_CQ_UPDATE: u8 = 2 << 2;
/// The data follow, instead of where they are.
pub const MLX5_INLINE_SEG: u32 = 0x8000_0000;
/// The card computes the checksum of IP, and of TCP or UDP.
pub const MLX5_ETH_WQE_L3_CSUM: u8 = 1 << 6;
pub const MLX5_ETH_WQE_L4_CSUM: u8 = 1 << 7;

/// What a completion is of, in the upper half of `op_own`.
pub const MLX5_CQE_REQ: u8 = 0;
pub const MLX5_CQE_RESP_SEND: u8 = 2;
pub const MLX5_CQE_REQ_ERR: u8 = 13;
pub const MLX5_CQE_RESP_ERR: u8 = 14;
/// There has not been any.
pub const MLX5_CQE_INVALID: u8 = 15;
pub const MLX5_CQE_OWNER_MASK: u8 = 1;
/// In `hds_ip_ext`: the checksum was looked at and is right.
pub const MLX5_CQE_L3_OK: u8 = 1 << 1;
pub const MLX5_CQE_L4_OK: u8 = 1 << 2;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mlx5dv_queue {
    pub buf: *mut c_void,
    pub wqe_cnt: u32,
    pub stride: u32,
}

/// Where doorbells ring.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mlx5dv_blueflame {
    pub reg: *mut c_void,
    pub size: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mlx5dv_qp {
    pub dbrec: *mut u32,
    pub sq: mlx5dv_queue,
    pub rq: mlx5dv_queue,
    pub bf: mlx5dv_blueflame,
    pub comp_mask: u64,
    pub uar_mmap_offset: off_t,
    pub tirn: u32,
    pub tisn: u32,
    pub rqn: u32,
    pub sqn: u32,
    pub tir_icm_addr: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mlx5dv_cq {
    pub buf: *mut c_void,
    pub dbrec: *mut u32,
    pub cqe_cnt: u32,
    pub cqe_size: u32,
    pub cq_uar: *mut c_void,
    pub cqn: u32,
    pub comp_mask: u64,
}

/// What is asked for, and where the answers go.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mlx5dv_obj {
    pub qp_in: *mut ibv_qp,
    pub qp_out: *mut mlx5dv_qp,
    pub cq_in: *mut ibv_cq,
    pub cq_out: *mut mlx5dv_cq,
    /// Kinds that the library does not use.
    pub others: [*mut c_void; 10],
}

/// How the card's clock becomes nanoseconds.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct mlx5dv_clock_info {
    pub nsec: u64,
    pub last_cycles: u64,
    pub frac: u64,
    pub mult: u32,
    pub shift: u32,
    pub mask: u64,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mlx5_cqe64 {
    pub before_hds_ip_ext: [u8; 28],
    pub hds_ip_ext: u8,
    pub l4_hdr_type_etc: u8,
    pub vlan_info: u16,
    pub srqn_uidx: u32,
    pub imm_inval_pkey: u32,
    pub app: u8,
    pub app_op: u8,
    pub app_info: u16,
    pub byte_cnt: u32,
    pub timestamp: u64,
    pub sop_drop_qpn: u32,
    pub wqe_counter: u16,
    pub signature: u8,
    pub op_own: u8,
}

/// The beginning of a request to send.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mlx5_wqe_ctrl_seg {
    pub opmod_idx_opcode: u32,
    pub qpn_ds: u32,
    pub signature: u8,
    pub dci_stream_channel_id: [u8; 2],
    pub fm_ce_se: u8,
    pub imm: u32,
}

/// It goes on so for Ethernet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mlx5_wqe_eth_seg {
    pub rsvd0: u32,
    pub cs_flags: u8,
    pub rsvd1: u8,
    pub mss: u16,
    pub rsvd2: u32,
    pub inline_hdr_sz: u16,
    pub inline_hdr_start: [u8; 2],
    pub inline_hdr: [u8; 16],
}

/// Where data are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct mlx5_wqe_data_seg {
    pub byte_count: u32,
    pub lkey: u32,
    pub addr: u64,
}
