//! What are inline functions in the header: they call the provider through the context.

use std::mem::{offset_of, size_of};
use std::ptr;

use libc::{c_int, timespec};

use crate::constants::{IBV_QPT_RAW_PACKET, IBV_VALUES_MASK_RAW_CLOCK};

use crate::structures::{
    ibv_context, ibv_cq, ibv_device_attr_ex, ibv_flow, ibv_flow_attr, ibv_qp, ibv_recv_wr,
    ibv_send_wr, ibv_values_ex, ibv_wc, verbs_context,
};

/// Takes up to `entries` completions. Negative: the queue has failed.
///
/// # Safety
/// `cq` is a live completion queue, and `wc` has room for as many entries.
#[inline]
pub unsafe fn poll_cq(cq: *mut ibv_cq, entries: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: a live queue has a live context.
    let poll = unsafe { (*(*cq).context).ops.poll_cq };
    match poll {
        // SAFETY: the caller's promise.
        Some(poll) => unsafe { poll(cq, entries, wc) },
        None => -libc::EOPNOTSUPP,
    }
}

/// Has the next completion raise an event in the queue's channel. Returns an error number.
///
/// # Safety
/// `cq` is a live completion queue.
pub unsafe fn req_notify_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: a live queue has a live context.
    let request = unsafe { (*(*cq).context).ops.req_notify_cq };
    match request {
        // SAFETY: the caller's promise.
        Some(request) => unsafe { request(cq, 0) },
        None => libc::EOPNOTSUPP,
    }
}

/// Queues requests to send, which begins. Returns an error number, with the first request that was
/// not taken in `bad`.
///
/// # Safety
/// `qp` is a live queue pair, and the list of requests is well-formed to its end.
#[inline]
pub unsafe fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a live queue pair has a live context.
    let post = unsafe { (*(*qp).context).ops.post_send };
    match post {
        // SAFETY: the caller's promise.
        Some(post) => unsafe { post(qp, list, bad) },
        None => libc::EOPNOTSUPP,
    }
}

/// Queues memory to receive into. As [`post_send`].
///
/// # Safety
/// As [`post_send`].
#[inline]
pub unsafe fn post_recv(
    qp: *mut ibv_qp,
    list: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a live queue pair has a live context.
    let post = unsafe { (*(*qp).context).ops.post_recv };
    match post {
        // SAFETY: the caller's promise.
        Some(post) => unsafe { post(qp, list, bad) },
        None => libc::EOPNOTSUPP,
    }
}

/// The extended context around a context, if it has the field at this offset.
///
/// # Safety
/// `context` is live.
unsafe fn extended(context: *mut ibv_context, field_offset: usize) -> Option<*mut verbs_context> {
    // SAFETY: the caller's promise.
    let mark = unsafe { (*context).abi_compat };
    if mark as usize != usize::MAX {
        return None;
    }
    let outer = context
        .wrapping_byte_sub(offset_of!(verbs_context, context))
        .cast::<verbs_context>();
    // SAFETY: the mark says that it lies inside one; the size stands right before it.
    let size = unsafe { (*outer).sz };
    (size >= size_of::<verbs_context>() - field_offset).then_some(outer)
}

/// What a device's clock shows, in cycles. `None`: it does not say.
///
/// # Safety
/// `context` is live.
pub unsafe fn clock_cycles(context: *mut ibv_context) -> Option<u64> {
    let offset = offset_of!(verbs_context, query_rt_values);
    // SAFETY: the caller's promise.
    let outer = unsafe { extended(context, offset) }?;
    // SAFETY: it has the field.
    let query = unsafe { (*outer).query_rt_values }?;
    let mut values = ibv_values_ex {
        comp_mask: IBV_VALUES_MASK_RAW_CLOCK,
        raw_clock: timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
    };
    // SAFETY: the caller's promise.
    let failed = unsafe { query(context, &raw mut values) };
    let is_told = failed == 0 && values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK != 0;
    is_told.then(|| values.raw_clock.tv_nsec.cast_unsigned())
}

/// How long a packet may be, in bytes, that a queue pair of raw packets cuts into segments; 0: it
/// does not.
///
/// # Safety
/// `context` is live.
pub unsafe fn longest_packet_to_cut(context: *mut ibv_context) -> u32 {
    let offset = offset_of!(verbs_context, query_device_ex);
    // SAFETY: the caller's promise.
    let outer = unsafe { extended(context, offset) };
    // SAFETY: it has the field.
    let Some(query) = outer.and_then(|outer| unsafe { (*outer).query_device_ex }) else {
        return 0;
    };
    // SAFETY: zeroes are numbers.
    let mut attributes: ibv_device_attr_ex = unsafe { std::mem::zeroed() };
    let size = size_of_val(&attributes);
    // SAFETY: the caller's promise; nothing special is asked for.
    let failed = unsafe { query(context, ptr::null(), &raw mut attributes, size) };
    let caps = attributes.tso_caps;
    let is_of_raw = caps.supported_qpts & 1 << IBV_QPT_RAW_PACKET != 0;
    if failed == 0 && is_of_raw {
        caps.max_tso
    } else {
        0
    }
}

/// Steers packets to a queue pair. Null: refused, and `errno` says why.
///
/// # Safety
/// `qp` is a live queue pair, and `attr` is followed by its specifications.
pub unsafe fn create_flow(qp: *mut ibv_qp, attr: *mut ibv_flow_attr) -> *mut ibv_flow {
    let offset = offset_of!(verbs_context, ibv_create_flow);
    // SAFETY: a live queue pair has a live context.
    let outer = unsafe { extended((*qp).context, offset) };
    // SAFETY: it has the field.
    let create = outer.and_then(|outer| unsafe { (*outer).ibv_create_flow });
    match create {
        // SAFETY: the caller's promise.
        Some(create) => unsafe { create(qp, attr) },
        None => {
            // SAFETY: it is the thread's own.
            unsafe { *libc::__errno_location() = libc::EOPNOTSUPP };
            ptr::null_mut()
        }
    }
}

/// Ends that. Returns an error number.
///
/// # Safety
/// `flow` comes from [`create_flow`], and is not used any more.
pub unsafe fn destroy_flow(flow: *mut ibv_flow) -> c_int {
    let offset = offset_of!(verbs_context, ibv_destroy_flow);
    // SAFETY: a live rule has a live context.
    let outer = unsafe { extended((*flow).context, offset) };
    // SAFETY: it has the field.
    let destroy = outer.and_then(|outer| unsafe { (*outer).ibv_destroy_flow });
    match destroy {
        // SAFETY: the caller's promise.
        Some(destroy) => unsafe { destroy(flow) },
        None => libc::EOPNOTSUPP,
    }
}
