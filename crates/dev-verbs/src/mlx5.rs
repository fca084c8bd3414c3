//! Queues of ConnectX cards, used as they lie in memory: no call a packet. What is written is what
//! rdma-core's `providers/mlx5` writes (`qp.c`, `cq.c`); the numbers are big-endian.

mod barrier;
mod completion_queue;
mod receive;
mod send;

use rdma_core_sys::{
    MLX5_SEND_WQE_BB, MLX5DV_OBJ_CQ, MLX5DV_OBJ_QP, Mlx5, ibv_cq, ibv_qp, mlx5dv_cq, mlx5dv_obj,
    mlx5dv_qp,
};

pub(crate) use receive::ReceiveQueue;
pub(crate) use send::{HEADERS_MAX, PARTS_MAX, SendQueue};

/// A queue pair's memory, and that of its completion queues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) pair: mlx5dv_qp,
    pub(crate) sent: mlx5dv_cq,
    pub(crate) received: mlx5dv_cq,
}

/// Zeroes, which the provider fills.
fn empty<T>() -> T {
    // SAFETY: the two structures that this is used for hold numbers and pointers.
    unsafe { std::mem::zeroed() }
}

fn queue(mlx5: &Mlx5, cq: *mut ibv_cq) -> Option<mlx5dv_cq> {
    let mut known: mlx5dv_cq = empty();
    let mut object = no_object();
    (object.cq_in, object.cq_out) = (cq, &raw mut known);
    // SAFETY: the queue is live, and there is room for the answer.
    let failed = unsafe { (mlx5.mlx5dv_init_obj)(&raw mut object, MLX5DV_OBJ_CQ) };
    let is_usable = failed == 0
        && !known.buf.is_null()
        && !known.dbrec.is_null()
        && !known.cq_uar.is_null()
        && known.cqe_cnt.is_power_of_two()
        && matches!(known.cqe_size, 64 | 128);
    is_usable.then_some(known)
}

fn no_object() -> mlx5dv_obj {
    mlx5dv_obj {
        qp_in: std::ptr::null_mut(),
        qp_out: std::ptr::null_mut(),
        cq_in: std::ptr::null_mut(),
        cq_out: std::ptr::null_mut(),
        others: [std::ptr::null_mut(); 10],
    }
}

impl Memory {
    /// Where the queues of a device of `mlx5`'s lie. `None`: in another way than is known here, so
    /// that they are the provider's.
    pub(crate) fn of(
        mlx5: &Mlx5,
        qp: *mut ibv_qp,
        [send_cq, receive_cq]: [*mut ibv_cq; 2],
    ) -> Option<Self> {
        let sent = queue(mlx5, send_cq)?;
        let received = queue(mlx5, receive_cq)?;
        let mut pair: mlx5dv_qp = empty();
        let mut object = no_object();
        (object.qp_in, object.qp_out) = (qp, &raw mut pair);
        // SAFETY: the queue pair is live, and there is room for the answer.
        let failed = unsafe { (mlx5.mlx5dv_init_obj)(&raw mut object, MLX5DV_OBJ_QP) };
        let is_usable = failed == 0
            && !pair.dbrec.is_null()
            && !pair.bf.reg.is_null()
            && !pair.sq.buf.is_null()
            && !pair.rq.buf.is_null()
            && pair.sq.wqe_cnt.is_power_of_two()
            && pair.rq.wqe_cnt.is_power_of_two()
            && pair.sq.stride as usize == MLX5_SEND_WQE_BB
            && matches!(pair.rq.stride, 16 | 32 | 64);
        is_usable.then_some(Self {
            pair,
            sent,
            received,
        })
    }
}

#[cfg(test)]
mod tests;
